"""The base of the parsers of text, Parquet, Arrow and ORC: tables some of whose columns are no features."""

from typing import Any

import numpy as np

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.matrices.matrix import MatrixParser, fits
from streamsvm.reader.parsers.tables.columns import Columns
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures
from streamsvm.reader.parsers.tables.mixed_columns import like_before
from streamsvm.storage.rows.csr import Array


class TableParser(MatrixParser):
    """A parser whose features are made of columns and numbered from 1.

    names  of labels that are strings
    """

    def __init__(self, options: InputOptions, limits: Limits, names: LabelNames | None) -> None:
        super().__init__(like_before(options), limits, base=1)
        self._labels = names or LabelNames(options.label_type)
        self._columns = Columns(None, None, None)
        self._maker: Maker | None = None
        self._column_entries: dict[str, Any] = {}

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        """`Manifest.input`: what further tables need to make the same features; None before the first row."""
        return None if self._maker is None else {**self._column_entries, **self._maker.input_entries()}

    @property
    def feature_places(self) -> Array | None:  # type: ignore[override]
        """The places of features in rows, see `MatrixParser`."""
        return None if self._maker is None else self._maker.places(self.index_base)

    @property
    def unknown(self) -> int:
        """Number of fields whose category has no feature."""
        return self._maker.unknown if self._maker else 0

    @property
    def warnings(self) -> list[dict[str, str]]:
        """Warnings of columns that look like ids or dates, each a code and a message."""
        return self._maker.warnings if self._maker else []

    @property
    def last_values(self) -> tuple[int, bool]:
        """Number of values of the last column if it could have labels, see `OddColumns.last_values`."""
        maker = self._maker
        return maker.last_values(self._column_entries["n_columns"]) if isinstance(maker, MixedFeatures) else (0, False)

    @property
    def text_columns(self) -> list[int]:
        """Places of the columns that are read as strings: groups, and labels if they are strings."""
        label = self._columns.label if self._labels.type == "string" else None
        return [place for place in (label, self._columns.group) if place is not None]

    def fitting(self, numbers: Array, place: int) -> Array:
        """(n,) bool: which numbers (n,) are allowed in the column at this place, of features, labels or weights."""
        # A label may be as large as any double.
        fit = np.isfinite(numbers) if place == self._columns.label else fits(numbers)
        return fit & (numbers >= 0) if place == self._columns.weight else fit
