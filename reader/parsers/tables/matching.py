"""Matches the columns of further tables, to train on or to predict, with those before; finds and reads labels to judge.

If both have names, columns are matched by name, in any order. If neither has, they are matched by place, and their
number must be the same. If only one side has names, the table is refused, unless the user says that it has no names.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions, LabelType
from streamsvm.reader.parsers.tables.columns import LABEL_NAMES, ColumnPlaces, Heading, listed
from streamsvm.reader.parsers.tables.fields import field_fault
from streamsvm.reader.parsers.tables.mixed_columns import ASIDE, MixedColumns, chosen, first_names, is_index
from streamsvm.reader.parsers.values import value_of
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

_SHOWN = 8
_ANOTHER = "\n"  # stands for a label that the model does not have
Column = Any  # (n,): a list of str, or an array of Arrow


@dataclass(frozen=True)
class Match:
    """The columns of a table matched with those of a model.

    columns       columns of the model, with their positions in the table
    unknown       names of columns of the table that the model does not have; they are ignored
    passed_names  whether columns were matched by position though the table has names, since the model has none
    """

    columns: MixedColumns
    unknown: list[str]
    passed_names: bool = False


def label_place(like: dict[str, Any], names: Sequence[str] | None) -> int | None:
    """Return the position of the labels in a table to predict: by their name in training, else one of LABEL_NAMES.

    Columns that are features of the model are not considered. None if no column, or several, could have the labels.
    """
    if names is None:
        return None
    model = like if like.get("has_names", True) else {}
    features = set(model.get("columns", ()))
    others = set(names) - features
    if model.get("label_column") in others:
        return names.index(model["label_column"])
    usual = [name for name in others if name.lower() in LABEL_NAMES]
    return names.index(usual[0]) if len(usual) == 1 else None


def match_names(like: dict[str, Any], names: Sequence[str] | None, n_columns: int) -> Match:
    """Match the columns of a table but its labels, if it has some, with a model's. InputError as `match_columns`."""
    label = label_place(like, names)
    return match_columns(like, names, n_columns, [] if label is None else [label])


def match_columns(
    like: dict[str, Any], names: Sequence[str] | None, n_columns: int, aside: Sequence[int], said_unnamed: bool = False
) -> Match:
    """Match a table's columns with `like`: a model's `input`, or {"n_features": n} for a model without columns.

    names         names of the table's columns; None: they have no names
    aside         positions of columns that are no features, such as labels
    said_unnamed  whether the user says that the table has no names, and its columns are in the order of training

    Raises InputError column_missing, column_count, header_differs, same_column.
    """
    rest = _rest(n_columns, aside)
    if "columns" not in like:
        if len(rest) != like["n_features"]:
            raise _misfit(like["n_features"], len(rest), aside)
        columns = MixedColumns([str(place + 1) for place in rest], rest, [False] * len(rest))
        return Match(columns, [], passed_names=names is not None)
    if names is not None and like["has_names"]:
        found = _by_name(like, names, aside)
        if found.missing:
            raise InputError("column_missing", f"the table lacks columns of the model: {shown(found.missing)}")
        if found.twice:
            message = f"{names[min(found.twice)][:40]} is a feature of the model, not the labels"
            raise InputError("same_column", message)
        return Match(_columns(like, found.places), [names[place] for place in found.others])
    if like["has_names"] and not said_unnamed:
        raise InputError(
            "header_differs",
            f"the model knows its columns by name ({shown(like['columns'])}), the table has no line with these names",
            hint="give it names (header=yes if they are numbers), or set header=no if columns stand as in training",
        )
    if names is not None and not like["has_names"]:
        raise InputError(
            "header_differs",
            f"the model was trained on columns without names, these have some: {shown(names)}",
            hint="if they stand as in training, take their names away; else train on a table with names",
        )
    is_alike = n_columns == like["n_columns"]
    if len(rest) != len(like["columns"]):
        # Places of training in a table of equal width.
        if not (is_alike and (aside or like.get("dropped"))) or set(aside) & set(like["places"]):
            raise _misfit(len(like["columns"]), len(rest), aside, may_be_labelled=is_alike)
        rest = like["places"]
    return Match(_columns(like, rest), [])


def named_numbers(names: Sequence[str]) -> dict[str, Any]:
    """Return the `input` of a model whose features are columns of numbers with these names."""
    words = {"categorical": [], "categories": "dictionary", "dictionary": {}}
    return {
        "columns": list(names),
        **words,
        "missing": "error",
        "has_names": True,
        "order": "names",
        "n_columns": len(names),
        "places": list(range(len(names))),
    }


def shown(names: Sequence[str]) -> str:
    """Return the first few names, for a message."""
    some = ", ".join(name[:40] or "''" for name in names[:_SHOWN])
    return f"{some}, ..." if len(names) > _SHOWN else some


def columns_before(like: dict[str, Any], options: InputOptions, heading: Heading, aside: Sequence[int]) -> MixedColumns:
    """Find the columns of `like`, the dataset's `input`, in a later table: by name, or by position if they have none.

    Raises InputError column_missing, columns_differ, same_column, column_count.
    """
    if not like["has_names"]:
        rest = _rest(heading.n_columns, aside)
        if heading.n_columns == like["n_columns"]:
            return _columns(like, like["places"])
        if len(rest) == len(like["columns"]) and not like.get("dropped"):
            return _columns(like, rest)
        message = f"the line has {heading.n_columns} columns, those before had {like['n_columns']}"
        hint = "columns without names are matched by place: give as many as before"
        raise InputError("column_count", message, line=1, hint=hint)
    found = _by_name(like, heading.names or (), aside)
    if found.twice:
        names = first_names([*map(heading.name, found.twice)])
        raise InputError("same_column", f"column {names} was a feature in the rows before", line=1)
    left_out, wanted = {heading.place_of(name) for name in listed(options.drop_columns or "")}, chosen(options, heading)
    others = [
        heading.name(place)
        for place in found.others
        if place not in left_out and (wanted is None or place in wanted) and not is_index(place, heading)
    ]
    if others:
        message = f"the rows before have no column {first_names(others)}"
        message += f", these no column {first_names(found.missing)}" if found.missing else ""
        raise InputError("columns_differ", message, line=1)
    if found.missing:
        raise InputError("column_missing", f"there is no column {first_names(found.missing)}", line=1)
    return _columns(like, found.places)


class _Named(NamedTuple):
    """Columns of a table by the names of earlier ones.

    places   of the earlier columns that it has
    missing  names of those that it lacks
    twice    places of columns that are features, and aside
    others   places of columns that were neither features nor labels, weights, groups, or left out
    """

    places: list[int]
    missing: list[str]
    twice: list[int]
    others: list[int]


def _by_name(like: dict[str, Any], names: Sequence[str], aside: Sequence[int]) -> _Named:
    # Comparing whole lists is fast, also for hundreds of thousands of names. Mostly the columns stand as in training.
    rest = _rest(len(names), aside)
    if len(rest) == len(like["columns"]) and [names[place] for place in rest] == like["columns"]:
        return _Named(rest, [], [], [])
    place_of = dict(zip(names, range(len(names)), strict=True))
    places = [place_of[name] for name in like["columns"] if name in place_of]
    missing = [name for name in like["columns"] if name not in place_of]
    before = {*like["columns"], *like.get("dropped", ()), *(like.get(option) for option in ASIDE)}
    features = set(places)
    twice = [place for place in aside if place in features]
    return _Named(places, missing, twice, [place for place in rest if names[place] not in before])


def _rest(n_columns: int, aside: Sequence[int]) -> list[int]:
    """The places of all columns but those that are aside."""
    is_aside = set(aside)
    return [place for place in range(n_columns) if place not in is_aside]


def _columns(like: dict[str, Any], places: list[int]) -> MixedColumns:
    # Earlier versions made rows of columns as they stood, and `input` has no order.
    words = set(like["categorical"])
    is_word = [name in words for name in like["columns"]] if words else [False] * len(places)
    return MixedColumns(like["columns"], places, is_word, by_name=like.get("order") == "names")


def _misfit(n_features: int, n_columns: int, aside: Sequence[int], may_be_labelled: bool = False) -> InputError:
    is_label = (may_be_labelled or n_columns == n_features + 1) and not aside
    return InputError(
        "column_count",
        f"the table has {n_columns} columns for features, the model takes {n_features}",
        hint="if one of them has the labels, leave it out, or name it: --label-column, ?label_column="
        if is_label
        else "give the columns of training",
    )


class Beside:
    """A queue of columns to write beside the predictions: parsers `put` columns of batches, the caller takes rows.

    names  names or numbers of the columns, written as in InputOptions.label_column
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        self._batches: deque[list[Column]] = deque()

    def put(self, columns: list[Column]) -> None:
        """Append the columns, in the order of `names`, of the next batch of rows."""
        if columns and len(columns[0]):
            self._batches.append(columns)

    def take(self, n_rows: int) -> list[Column]:
        """Remove and return the columns of the next `n_rows` rows."""
        parts: list[list[Column]] = []
        while n_rows and self.names:
            batch = self._batches.popleft()
            if len(batch[0]) > n_rows:
                self._batches.appendleft([column[n_rows:] for column in batch])
                batch = [column[:n_rows] for column in batch]
            n_rows -= len(batch[0])
            parts.append(batch)
        return [_joined(list(columns)) for columns in zip(*parts, strict=True)]


def _joined(parts: list[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], list):
        return list(chain.from_iterable(parts))
    import pyarrow  # noqa: PLC0415 - slow to import

    return pyarrow.concat_arrays(parts)


class ToPredict:
    """Finds columns and reads labels of rows to predict. options.like is the model's `input`, or {"n_features": n}.

    No label is a fault: a string becomes its index in `classes`, the number of classes if it is none of them.

    classes  labels of the model
    beside   collects columns to write beside predictions; they make features only if the model has features so named
    match    attribute: the table's columns matched with the model's; None before `columns` was called
    """

    match: Match | None = None

    def __init__(self, classes: Sequence[Label] = (), beside: Beside | None = None) -> None:
        self._codes = {label: float(code) for code, label in enumerate(classes) if isinstance(label, str)}
        self._values = {value_of(label): code for label, code in self._codes.items()}
        self.beside = beside or Beside()

    @property
    def label_type(self) -> LabelType:
        """The type of the model's labels, and so of labels to compare with: "string" or "number"."""
        return "string" if self._codes else "number"

    def aside(self, options: InputOptions, heading: Heading) -> ColumnPlaces:
        """Find only the labels, no weights and groups. In a table without names, they are where training had them."""
        wanted, like = options.label_column, options.like or {}
        is_unnamed = heading.names is None and like.get("has_names") is False
        if wanted is None and is_unnamed and heading.n_columns == like["n_columns"] + len(self.beside.names):
            wanted = like.get("label_column")
        label = label_place(like, heading.names) if wanted is None else heading.place(wanted, "label_column")
        return ColumnPlaces(label, None, None)

    def columns(self, options: InputOptions, heading: Heading, columns: ColumnPlaces) -> MixedColumns:
        """Match the columns of a table with those of the model, options.like. Raises InputError as `match_columns`."""
        like = options.like
        assert like is not None
        places, said_unnamed = heading.places_of(self.beside.names, "keep"), options.header == "no"
        is_by_name = "columns" in like and like["has_names"] and heading.names is not None
        aside = columns.aside if is_by_name else [*columns.aside, *(k for k in places if k not in columns.aside)]
        try:
            match = match_columns(like, heading.names, heading.n_columns, aside, said_unnamed)
        except InputError as error:
            error.line = 1
            raise
        kept = {heading.name(place) for place in places}
        self.match = replace(match, unknown=[name for name in match.unknown if name not in kept])
        return match.columns

    def codes(self, texts: Iterable[str]) -> Array:
        """Return (n,): the class codes of labels that are strings; NaN for a missing label."""
        return np.array([self._code(text) if text else np.nan for text in texts], LABEL)

    def _code(self, text: str) -> float:
        code = self._codes.get(text)
        return self._values.get(value_of(text), float(len(self._codes))) if code is None else code

    def read(self, labels: Sequence[bytes]) -> Array:
        """Return (n,): class codes or numbers of documents' labels; NaN for a label that is missing or no number."""
        if self._codes:
            return self.codes(label.decode(errors="replace") for label in labels)
        return np.array([np.nan if field_fault(label, "label") else float(label) for label in labels], LABEL)

    def expected(self, label: Array) -> Array:
        """Return (n,): the labels for the codes or numbers `label` (n,) of rows; NaN or "" where a label is missing."""
        if not self._codes:
            return label
        places = np.where(np.isnan(label), len(self._codes) + 1, label).astype(np.int64)
        return np.array([*self._codes, _ANOTHER, ""])[places]
