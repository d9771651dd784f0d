"""Finds the columns of a table to predict, and reads its labels, which judge the predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions, LabelType
from streamsvm.reader.parsers.tables.column_match import Match, label_place, match_columns
from streamsvm.reader.parsers.tables.columns import Columns, Heading
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

_ANOTHER = "\n"  # stands for a label that the model does not have


class Judge:
    """Translates labels that are strings to numbers and back.

    classes  labels of the model. A label that is a string becomes its place in `classes`; a string that is no class
             becomes their number
    """

    def __init__(self, classes: Sequence[Label]) -> None:
        self._codes = {label: float(code) for code, label in enumerate(classes) if isinstance(label, str)}

    @property
    def type(self) -> LabelType:
        """The type of the labels."""
        return "string" if self._codes else "number"

    def codes(self, texts: Iterable[str | None]) -> Array:
        """(n,): the numbers of labels; NaN for one that is missing."""
        other = float(len(self._codes))
        return np.array([self._codes.get(text, other) if text else np.nan for text in texts], LABEL)

    def expected(self, label: Array) -> Array:
        """(n,): the labels that the numbers `label` (n,) of rows stand for, NaN or "" where a row has none."""
        if not self._codes:
            return label
        places = np.where(np.isnan(label), len(self._codes) + 1, label).astype(np.int64)
        return np.array([*self._codes, _ANOTHER, ""])[places]


class TableToPredict:
    """Base of parsers of tables to predict: they compare labels with predictions, and accept any label, or none.

    classes  labels of the model
    match    of the table's columns with the model's, set when the names of the columns are known
    """

    match: Match | None = None

    def __init__(self, classes: Sequence[Label]) -> None:
        self.judge = Judge(classes)

    @property
    def unknown(self) -> int:
        """Number of fields whose category has no feature; the parser has it."""
        raise NotImplementedError

    def expected(self, label: Array) -> Array:
        """(n,): the labels that the numbers `label` (n,) of rows stand for, NaN or "" where a row has none."""
        return self.judge.expected(label)


def judged_columns(options: InputOptions, heading: Heading) -> Columns:
    """Find the labels alone: weights and groups are not read."""
    wanted = options.label_column
    label = label_place(options.like or {}, heading.names)
    return Columns(label if wanted is None else heading.place(wanted, "label_column"), None, None)


def matched(options: InputOptions, heading: Heading, columns: Columns, beside: Sequence[str] = ()) -> Match:
    """Match the columns of a table with those of the model, options.like. Raises InputError as `match_columns`.

    beside  names or numbers of columns that the caller wants beside the rows; they are features only of a model that
            has features of their names
    """
    like = options.like
    assert like is not None
    places, said_unnamed = heading.places_of(beside, "keep"), options.header == "no"
    is_by_name = "columns" in like and like["has_names"] and heading.names is not None
    aside = columns.aside if is_by_name else [*columns.aside, *(k for k in places if k not in columns.aside)]
    try:
        match = match_columns(like, heading.names, heading.n_columns, aside, said_unnamed)
    except InputError as error:
        error.line = 1
        raise
    names = {heading.name(place) for place in places}
    return replace(match, unknown=[name for name in match.unknown if name not in names]) if names else match
