"""Writes predictions as Parquet: pieces are streams of Arrow, which are joined to row groups of equal size."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow
from pyarrow import ipc, parquet

from streamsvm.reader.errors import InputError
from streamsvm.service.predictions.columns import Output, OutputColumns, PredictedBatch

_TERMS = pyarrow.map_(pyarrow.string(), pyarrow.float64())
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 32 << 20


class ParquetWriter:
    """Writes Parquet. Labels that are numbers have the type float64; contributions are a map."""

    def __init__(self, columns: OutputColumns) -> None:
        self._columns = columns
        has_words = any(isinstance(each, str) for each in columns.predictor.classes)
        kinds = {"contributions": _TERMS, **({"label": pyarrow.string()} if has_words else {})}
        kept = zip(columns.kept, columns.kept_types or [pyarrow.string()] * len(columns.kept), strict=True)
        outputs = ((name, kinds.get(name, pyarrow.float64())) for name in columns.output_names())
        self._schema = pyarrow.schema([*kept, *outputs])

    def write_piece(self, file: IO[bytes], batches: Iterable[PredictedBatch]) -> None:
        """Write the batches of a unit to its piece, a stream of Arrow. Raises InputError keep_type."""
        with ipc.new_stream(file, self._schema) as stream:
            for batch in batches:
                n_kept = len(batch.kept)
                fields = zip(batch.kept, list(self._schema)[:n_kept], strict=True)
                kept = [_cast(column, field.name, field.type) for column, field in fields]
                outputs = [_array(column) for column in self._columns.flat(batch)]
                stream.write_batch(pyarrow.record_batch([*kept, *outputs], self._schema))

    def join(self, pieces: Iterable[Path], file: IO[bytes]) -> None:
        """Join the pieces, in the order of rows, into a Parquet file."""
        with parquet.ParquetWriter(file, self._schema) as whole:
            for table in _tables(_batches(pieces)):
                whole.write_table(table, row_group_size=_GROUP_ROWS)


def _batches(pieces: Iterable[Path]) -> Iterator[Any]:
    for path in pieces:
        with pyarrow.OSFile(str(path)) as file, ipc.open_stream(file) as stream:
            yield from stream


def _tables(batches: Iterable[Any]) -> Iterator[Any]:
    """Join batches into tables of _GROUP_ROWS rows, or of fewer rows that have _GROUP_BYTES."""
    held: list[Any] = []
    rows = size = 0
    for whole in batches:
        most = max(1, min(_GROUP_ROWS, _GROUP_BYTES * whole.num_rows // max(1, whole.nbytes)))
        batch = whole
        while batch.num_rows:
            part = batch.slice(0, min(most, _GROUP_ROWS - rows))
            batch = batch.slice(part.num_rows)
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
            if rows == _GROUP_ROWS or size >= _GROUP_BYTES:
                yield pyarrow.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pyarrow.Table.from_batches(held)


def _cast(column: Any, name: str, wanted: Any) -> Any:
    try:
        if isinstance(column, list):
            return pyarrow.array(column, wanted)
        return column if column.type == wanted else column.cast(wanted)
    except pyarrow.ArrowException:
        found = "text" if isinstance(column, list) else str(column.type)
        message = f"{name[:40]} is {found[:40]}, and {str(wanted)[:40]} in the first file"
        raise InputError("keep_type", message) from None


def _array(column: Output) -> Any:
    if isinstance(column, list):
        return pyarrow.array([list(each.items()) for each in column], _TERMS)
    return pyarrow.array(column.tolist() if column.dtype.kind == "U" else column.astype("float64"))
