"""CSV and TSV whose rows are to be predicted: columns are those that the model was trained on, see `column_match`."""

from collections.abc import Sequence

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.column_match import Match, label_place, match_columns
from streamsvm.reader.parsers.tables.columns import Columns
from streamsvm.reader.parsers.tables.csv import CsvParser, Faults
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

_ANOTHER = "\n"  # in place of a label that the model does not have


class CsvToPredict(CsvParser):
    """options.like is the model's `input`, or {"n_features": n}.

    classes  labels of the model: rows hold the places in it of those that are texts, len(classes) for others

    Labels are looked at to judge predictions, and none is a fault: what is no label is NaN.

    match    which columns are which, when the first line has been read
    """

    def __init__(self, options: InputOptions, limits: Limits, classes: Sequence[Label] = ()) -> None:
        self._codes = {label: float(code) for code, label in enumerate(classes) if isinstance(label, str)}
        super().__init__(options, limits, LabelNames("string" if self._codes else "number"), labelled=False)
        self.match: Match | None = None

    def _find_columns(self) -> Columns:
        """Labels alone: of weights and groups nothing is asked."""
        wanted, heading = self._options.label_column, self._heading
        label = label_place(self._options.like or {}, heading.names)
        return Columns(label if wanted is None else heading.place(wanted, "label_column"), None, None)

    def feature_columns(self, begin: int, end: int) -> MixedColumns:
        like, heading, said_unnamed = self._options.like, self._heading, self._options.header == "no"
        assert like is not None
        try:
            self.match = match_columns(like, heading.names, heading.n_columns, self._columns.aside, said_unnamed)
        except InputError as error:
            error.line = 1
            raise
        return self.match.columns

    def expected(self, label: Array) -> Array:
        """(n,): the labels that stand for those of some rows, nan or "" where there is none."""
        if not self._codes:
            return label
        places = np.where(np.isnan(label), len(self._codes) + 1, label).astype(np.int64)
        return np.array([*self._codes, _ANOTHER, ""])[places]

    def _aside(self, fields: Fields, column: int, faults: Faults) -> Array:
        return super()._aside(fields, column, {} if column == self._columns.label else faults)

    def _texts(self, fields: Fields, column: int, faults: Faults) -> list[str]:
        return super()._texts(fields, column, {} if column == self._columns.label else faults)

    def _kept_labels(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        label = self._columns.label
        if label not in texts:
            return super()._kept_labels(numbers, texts, keep)
        other = float(len(self._codes))
        codes = [self._codes.get(text, other) if text else np.nan for text in texts[label]]
        return np.array(codes, LABEL)[keep]
