"""What CSV and Parquet have in common: tables with columns that are no features, some of them of text."""

from collections.abc import Mapping, Sequence

import numpy as np

from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.columns import Columns
from reader.parsers.groups import groups_of
from reader.parsers.label_names import LabelNames
from reader.parsers.matrix import MatrixParser, fits
from storage.csr import Array, Rows

Texts = Mapping[int, Sequence[str]]  # columns of text (rows,) by their places


class TableParser(MatrixParser):
    """A table is an array (rows, columns) of numbers and `Texts`; the numbers at their places mean nothing.

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

    def fitting(self, table: Array, places: Sequence[int] | None = None) -> Array:
        """Which numbers (rows, columns) can be what they stand for, a feature, label or weight.

        places: of the columns; by default they are all there
        """
        found = fits(table)
        for column, place in enumerate(range(table.shape[1]) if places is None else places):
            # A label may be as large as any double.
            if place == self._columns.label:
                found[:, column] = np.isfinite(table[:, column])
            if place == self._columns.weight:
                found[:, column] &= table[:, column] >= 0
        return found

    def give_columns(self, table: Array, texts: Texts, *, labelled: bool = True) -> Rows:
        """The rows of a table that fits. labelled: False: labels are NaN if there are none, or strings."""
        label, weight, group = self._columns.label, self._columns.weight, self._columns.group
        if label is None or (label in texts and not labelled):
            labels = np.full(len(table), np.nan)
        else:
            labels = self._labels.numbers(texts[label]) if label in texts else table[:, label]
        return self.give_table(
            labels,
            np.delete(table, self._columns.aside, axis=1),
            None if weight is None else table[:, weight].copy(),
            None if group is None else groups_of(texts[group]),
        )
