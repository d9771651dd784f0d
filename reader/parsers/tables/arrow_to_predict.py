"""Reads Parquet and streams of Arrow to predict: `column_match` finds the columns that the model was trained on."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser, Table
from streamsvm.reader.parsers.tables.arrow_types import is_number
from streamsvm.reader.parsers.tables.columns import Columns, Heading
from streamsvm.reader.parsers.tables.judge import TableToPredict, judged_columns, matched
from streamsvm.reader.parsers.tables.mixed import Maker
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import Array


class ArrowToPredict(ArrowTableParser, TableToPredict):
    """A parser whose options.like is the model's `input`, or {"n_features": n}.

    A label that cannot be read becomes NaN.

    read     makes the tables of the bytes of an input
    classes  labels of the model, see `Judge`
    beside   takes further columns, which `read` puts into it
    """

    def __init__(
        self,
        options: InputOptions,
        limits: Limits,
        read: Callable[[Iterable[bytes]], Iterator[Table]],
        classes: Sequence[Label] = (),
        beside: Beside | None = None,
    ) -> None:
        TableToPredict.__init__(self, classes)
        self._beside = beside or Beside()
        ArrowTableParser.__init__(self, options, limits, LabelNames(self.judge.type), labelled=False)
        self._read = read

    def tables(self, chunks: Iterable[bytes]) -> Iterator[Table]:
        return self._read(chunks)

    def find_columns(self, heading: Heading) -> Columns:
        return judged_columns(self._options, heading)

    def feature_columns(self) -> MixedColumns:
        self.match = matched(self._options, self._heading, self._columns, self._beside.names)
        return self.match.columns

    def number_places(self, maker: Maker) -> list[int]:
        label = self._columns.label
        has_numbers = label is not None and is_number(self._schema.field(label).type)
        return [place for place in super().number_places(maker) if place != label or has_numbers]

    def labels_of(self, numbers: dict[int, Array], texts: dict[int, Array], keep: Array) -> Array:
        label = self._columns.label
        if label in texts:
            return self.judge.codes(texts[label])[keep]
        return numbers[label][keep] if label in numbers else np.full(int(keep.sum()), np.nan)
