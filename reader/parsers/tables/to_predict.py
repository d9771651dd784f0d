"""Tables to predict: finds the columns that the model was trained on, and labels, which judge the predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions, LabelType
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.tables.column_match import Match, label_place, match_columns
from streamsvm.reader.parsers.tables.columns import Columns, Heading
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

_ANOTHER = "\n"  # stands for a label that the model does not have


class ToPredict:
    """What a parser of a table whose options.like is a model's `input`, or {"n_features": n}, asks for.

    No label is a fault: one that is a string becomes its place in `classes`, or their number if it is none of them.

    classes  labels of the model
    beside   takes further columns, which are no features unless the model has features of their names
    match    of the table's columns with the model's, set when the names of the columns are known
    """

    match: Match | None = None
    _matched: Heading | None = None

    def __init__(self, classes: Sequence[Label] = (), beside: Beside | None = None) -> None:
        self._codes = {label: float(code) for code, label in enumerate(classes) if isinstance(label, str)}
        self.beside = beside or Beside()

    @property
    def label_type(self) -> LabelType:
        """The type of the labels."""
        return "string" if self._codes else "number"

    def aside(self, options: InputOptions, heading: Heading) -> Columns:
        """Find the labels alone: weights and groups are not read."""
        wanted = options.label_column
        label = label_place(options.like or {}, heading.names)
        return Columns(label if wanted is None else heading.place(wanted, "label_column"), None, None)

    def columns(self, options: InputOptions, heading: Heading, columns: Columns) -> MixedColumns:
        """Match the columns of a table with those of the model, options.like. InputError as `match_columns`."""
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
        self.know(heading, replace(match, unknown=[name for name in match.unknown if name not in kept]))
        return match.columns

    def know(self, heading: Heading, match: Match) -> None:
        """Take over how the columns of this table have been matched."""
        self._matched, self.match = heading, match

    def codes(self, texts: Iterable[str]) -> Array:
        """(n,): the numbers of labels; NaN for one that is missing."""
        other = float(len(self._codes))
        return np.array([self._codes.get(text, other) if text else np.nan for text in texts], LABEL)

    def expected(self, label: Array) -> Array:
        """(n,): the labels that the numbers `label` (n,) of rows stand for, NaN or "" where a row has none."""
        if not self._codes:
            return label
        places = np.where(np.isnan(label), len(self._codes) + 1, label).astype(np.int64)
        return np.array([*self._codes, _ANOTHER, ""])[places]
