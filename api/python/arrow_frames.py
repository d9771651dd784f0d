"""Opens data frames, tables and readers as batches of Arrow."""

import numbers
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamsvm.frames import is_dataset, is_lazy, is_pandas, is_reader, is_stream

_MOST_ROWS = 1 << 16
# Rows that a pyarrow dataset reads at a time; it reads ahead.
_ROWS_OF_DATASET = 1 << 13


class Batches(NamedTuple):
    """A table.

    schema   names and types of its columns
    batches  its rows; some can be read only once
    size     bytes, None if unknown
    """

    schema: Any
    batches: Iterator[Any]
    size: int | None


def opened(X: Any) -> Batches:
    """Open a frame or a table. The columns of a frame whose names are no strings are called 1, 2, ..."""
    if is_reader(X):
        return Batches(X.schema, _cut(X), None)
    if is_dataset(X) and not hasattr(X, "num_rows"):
        read = {"batch_size": _ROWS_OF_DATASET, "batch_readahead": 1, "fragment_readahead": 1}
        return Batches(X.schema, iter(X.to_batches(**read)), None)
    if is_lazy(X):
        return _collected(X)
    if is_stream(X) and not (is_pandas(X) or is_dataset(X) or hasattr(X, "to_arrow")):
        reader = pa.RecordBatchReader.from_stream(X)
        return Batches(reader.schema, _cut(reader), None)
    table = _table(X)
    return Batches(table.schema, iter(table.to_batches(max_chunksize=_MOST_ROWS)), table.nbytes)


def _collected(X: Any) -> Batches:
    """Read a LazyFrame of polars in batches where polars can, else whole."""
    if not hasattr(X, "collect_batches"):
        return opened(X.collect())
    frames = (frame.to_arrow() for frame in X.collect_batches(maintain_order=True))
    first = next(frames, None)
    if first is None:
        return opened(X.collect())

    def batches() -> Iterator[Any]:
        yield from first.to_batches(max_chunksize=_MOST_ROWS)
        for table in frames:
            yield from table.cast(first.schema).to_batches(max_chunksize=_MOST_ROWS)

    return Batches(first.schema, batches(), None)


def _cut(reader: Any) -> Iterator[Any]:
    """The batches of a reader, of at most _MOST_ROWS rows each."""
    for batch in reader:
        for begin in range(0, batch.num_rows, _MOST_ROWS):
            yield batch.slice(begin, _MOST_ROWS)


def _table(X: Any) -> Any:
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if is_pandas(X):
        names = list(X.columns)
        named = all(isinstance(name, str) for name in names)
        columns = [_column(X.iloc[:, place]) for place in range(len(names))]
        return pa.Table.from_arrays(columns, names if named else [str(place + 1) for place in range(len(names))])
    return X.to_arrow() if hasattr(X, "to_arrow") else pa.table(X)


def _column(series: Any) -> Any:
    """A column of pandas as Arrow. One of several types has the texts that CSV would have, or numbers if all are."""
    try:
        column = pa.array(series, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    if hasattr(series, "sparse"):
        return _column(series.sparse.to_dense())
    values = [None if gap else value for value, gap in zip(series.tolist(), series.isna().tolist(), strict=True)]
    if all(value is None or isinstance(value, numbers.Real | np.bool_) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.large_string())
