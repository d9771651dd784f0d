"""Matches columns of tables to predict with columns of training, and finds labels to compare the predictions with.

If columns have names in both, they are matched by name, in any order. If they have names in neither, they are matched
by position, and their number must be equal. Otherwise the table is refused, unless the user says that it has no names.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions, LabelType
from streamsvm.reader.parsers.tables.columns import LABEL_NAMES, ColumnPlaces, Heading
from streamsvm.reader.parsers.tables.fields import field_fault
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns, is_by_name
from streamsvm.reader.parsers.values import value_of
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

ASIDE = ("label_column", "weight_column", "group_column")
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


def match_columns(
    like: dict[str, Any], names: Sequence[str] | None, n_columns: int, aside: Sequence[int], said_unnamed: bool = False
) -> Match:
    """Match a table's columns with `like`: a model's `input`, or {"n_features": n} for a model without columns.

    names         names of the table's columns; None: they have no names
    aside         positions of columns that are no features, such as labels
    said_unnamed  whether the user says that the table has no names, and its columns are in the order of training

    Raises InputError column_missing, column_count, header_differs, same_column.
    """
    if "columns" not in like:
        return Match(_numbered(like["n_features"], n_columns, aside), [], passed_names=names is not None)
    if names is not None and like["has_names"]:
        return _by_name(like, names, aside)
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
    return Match(_columns(like, _places(like, n_columns, aside)), [])


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


def _by_name(like: dict[str, Any], names: Sequence[str], aside: Sequence[int]) -> Match:
    # Comparing whole lists is fast, also for hundreds of thousands of names. Mostly the columns stand as in training.
    places = [place for place in range(len(names)) if place not in aside]
    if len(places) == len(like["columns"]) and [names[place] for place in places] == like["columns"]:
        return Match(_columns(like, places), [])
    place = dict(zip(names, range(len(names)), strict=True))
    if missing := set(like["columns"]) - place.keys():
        ordered = [name for name in like["columns"] if name in missing]
        raise InputError("column_missing", f"the table lacks columns of the model: {shown(ordered)}")
    places = [*map(place.__getitem__, like["columns"])]
    columns = _columns(like, places)
    if both := set(aside).intersection(places):
        raise InputError("same_column", f"{names[min(both)][:40]} is a feature of the model, not the labels")
    of_model = {
        *like["columns"],
        *like.get("dropped", ()),
        *(like.get(option) for option in ASIDE),
        *(names[number] for number in aside),
    }
    unknown = set(names) - of_model
    return Match(columns, [name for name in names if name in unknown] if unknown else [])


def _numbered(n_features: int, n_columns: int, aside: Sequence[int]) -> MixedColumns:
    places = [place for place in range(n_columns) if place not in aside]
    if len(places) != n_features:
        raise _misfit(n_features, len(places), aside)
    return MixedColumns([str(place + 1) for place in places], places, [False] * n_features)


def _places(like: dict[str, Any], n_columns: int, aside: Sequence[int]) -> list[int]:
    """Return positions of a model's unnamed columns: all but `aside`, or as in training if the table is as wide."""
    wanted = like["columns"]
    rest = [place for place in range(n_columns) if place not in aside]
    if len(rest) == len(wanted):
        return rest
    if n_columns == like["n_columns"] and (aside or like.get("dropped")) and not set(aside) & set(like["places"]):
        return like["places"]
    raise _misfit(len(wanted), len(rest), aside, may_be_labelled=n_columns == like["n_columns"])


def _columns(like: dict[str, Any], places: list[int]) -> MixedColumns:
    words = set(like["categorical"])
    is_word = [name in words for name in like["columns"]] if words else [False] * len(places)
    return MixedColumns(like["columns"], places, is_word, by_name=is_by_name(like))


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
    _matched: Heading | None = None

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
        if self.match is not None and self._matched is heading:
            return self.match.columns
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
        self._matched, self.match = (
            heading,
            replace(match, unknown=[name for name in match.unknown if name not in kept]),
        )
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
