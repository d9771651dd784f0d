"""What CSV and Parquet have in common: tables with columns that are no features, some of them of text."""

from typing import Any

import numpy as np

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.matrices.matrix import MatrixParser, fits
from streamsvm.reader.parsers.tables.columns import Columns
from streamsvm.reader.parsers.tables.mixed import Maker
from streamsvm.reader.parsers.tables.mixed_columns import like_before
from streamsvm.storage.rows.csr import Array


class TableParser(MatrixParser):
    """A parser whose features are columns, counted from 1.

    names   of labels that are strings
    """

    def __init__(self, options: InputOptions, limits: Limits, names: LabelNames | None) -> None:
        super().__init__(like_before(options), limits, base=1)
        self._labels = names or LabelNames(options.label_type)
        self._columns = Columns(None, None, None)
        self._maker: Maker | None = None
        self._told: dict[str, Any] = {}

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        """The description that further tables need to make the same features."""
        return None if self._maker is None else {**self._told, **self._maker.told()}

    @property
    def unknown(self) -> int:
        """Categories that make no features."""
        return self._maker.unknown if self._maker else 0

    @property
    def warnings(self) -> list[dict[str, str]]:
        """Warnings of columns that look as if they were no features, each a code and a message."""
        return self._maker.warnings if self._maker else []

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
