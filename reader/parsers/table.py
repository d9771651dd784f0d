"""What CSV and Parquet have in common: tables with columns that are no features, some of them of text."""

import numpy as np

from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.columns import Columns
from reader.parsers.label_names import LabelNames
from reader.parsers.matrix import MatrixParser, fits
from storage.csr import Array


class TableParser(MatrixParser):
    """A parser whose features are columns, counted from 1.

    names   of labels that are strings
    """

    def __init__(self, options: InputOptions, limits: Limits, names: LabelNames | None) -> None:
        super().__init__(options, limits, base=1)
        self._labels = names or LabelNames(options.label_type)
        self._columns = Columns(None, None, None)

    @property
    def text_columns(self) -> list[int]:
        """Places of what is read as strings."""
        label = self._columns.label if self._labels.type == "string" else None
        return [place for place in (label, self._columns.group) if place is not None]

    def fitting(self, numbers: Array, place: int) -> Array:
        """Which numbers (rows,) can be what the column at this place stands for, a feature, label or weight."""
        # A label may be as large as any double.
        found = np.isfinite(numbers) if place == self._columns.label else fits(numbers)
        return found & (numbers >= 0) if place == self._columns.weight else found
