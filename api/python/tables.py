"""Turns data frames and tables into streams of Arrow, which ingest reads as it reads Parquet."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from streamsvm.labels import Labels
from streamsvm.reader.errors import InputError
from streamsvm.reader.options import OF_FRAMES, InputOptions, options_from
from streamsvm.reader.parsers.tables.arrow import is_number, plain_values, written
from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.service.remote.frames import column_names, is_column
from streamsvm.service.remote.rows import opened
from streamsvm.storage.rows.csr import Array

# Names of the columns of labels and weights that are appended to the columns of a frame.
LABEL, WEIGHT = "\0label", "\0weight"
_BESIDE = {"label_column": LABEL, "weight_column": WEIGHT}
Streamed = tuple[Iterator[bytes], InputOptions, int | None, tuple[str, ...]]  # the fields of `sources.Stream`


def table_stream(
    X: Any, y: Any, weight: Any, labels: Labels | None, options: dict[str, Any] | None, labelled: bool = True
) -> Streamed:
    """Make streams of a frame.

    y, weight  name or number of a column, an array (n_rows,), or None; y None: the column with a usual name
    labels     translates labels to numbers; None: ingest takes them unchanged
    options    input options by name
    labelled   False: y None means no labels
    """
    table = opened(X)
    named = column_names(X) is not None and (options or {}).get("header") != "no"
    heading = Heading(table.schema.names if named else None, len(table.schema.names))
    places, arrays = dict[str, int](), dict[str, Any]()
    for option, given in (("label_column", y), ("weight_column", weight)):
        if is_column(given):
            places[option] = heading.place(str(given), option)
        elif given is not None:
            arrays[option] = np.asarray(given)
    if y is None and labelled and (usual := heading.label()) is not None:
        places["label_column"] = usual
    read_as = _options(options, named, heading, places, tuple(arrays))
    encode = None if labels is None else labels.encode
    batches = _completed(table.batches, table.schema, places, arrays, encode)
    return written(batches), read_as, table.size, tuple(arrays)


def table_streams(parts: Iterable[tuple[Any, Any, Any]], labels: Labels, options: dict[str, Any] | None) -> Streamed:
    """Make a stream of each part (X, y, weight), one after the other; all are read with the options of the first."""
    rest = iter(parts)
    first, read_as, _, beside = table_stream(*next(rest), labels, options)

    def chunks() -> Iterator[bytes]:
        yield from first
        for part in rest:
            yield from table_stream(*part, labels, options)[0]

    return chunks(), read_as, None, beside


def stream_of_matrix(X: Array, names: list[str] | None, y: Any, weight: Any, options: Any) -> Streamed:
    """Make streams of a matrix (n_rows, n_columns) whose columns have these names, with labels y that are numbers."""
    columns = {names[place] if names else str(place + 1): X[:, place] for place in range(X.shape[1])}
    left_out = {"columns": None, "drop_columns": None}
    given = {**(options or {}), **left_out, **({} if names else {"header": "no"})}
    return table_stream(pa.table(columns), y, weight, None, given)


def _options(
    given: dict[str, Any] | None, named: bool, heading: Heading, places: dict[str, int], beside: tuple[str, ...]
) -> InputOptions:
    """Return the options by which ingest reads the streams."""
    options = options_from(given)
    if options.format not in ("auto", "arrow"):
        raise InputError("option_unused", f"format is {options.format}, the rows are a table in memory")
    n_columns = heading.n_columns + len(beside)
    # A negative number, which counts from the end, cannot be taken for the name of another column.
    columns = {option: str(place - n_columns) for option, place in places.items()}
    columns |= {option: str(number - len(beside)) for number, option in enumerate(beside)}
    return replace(options, format=OF_FRAMES, **columns, **({} if named else {"header": "no"}))  # type: ignore[arg-type]


def _completed(
    batches: Iterator[Any],
    schema: Any,
    places: dict[str, int],
    arrays: dict[str, Any],
    encode: Callable[[Array], Array] | None,
) -> Iterator[Any]:
    """Yield batches with encoded labels, and the arrays appended as columns. Raises ValueError for wrong lengths."""
    names = [*schema.names, *(_BESIDE[option] for option in arrays)]
    row = 0
    for batch in batches:
        columns = list(batch.columns)
        if encode is not None and "label_column" in places:
            place = places["label_column"]
            columns[place] = pa.array(encode(_labels(columns[place], row)))
        for option, values in arrays.items():
            part = values[row : row + batch.num_rows]
            if option == "weight_column":
                part = np.asarray(part, np.float64)
            elif encode is not None:
                check_labels(part, row)
                part = encode(part)
            columns.append(pa.array(part, from_pandas=True))
        row += batch.num_rows
        if any(len(values) < row for values in arrays.values()):
            break
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=schema.metadata))
    for option, values in arrays.items():
        if len(values) != row:
            what = "y" if option == "label_column" else "sample_weight"
            raise ValueError(f"X and {what} have inconsistent numbers of samples: {row}, {len(values)}")


def _labels(column: Any, first: int) -> Array:
    """Return the labels in a column, (n,) numbers or texts. Raises InputError missing_value."""
    column = plain_values(column)
    gaps = column.is_null(nan_is_null=True)
    if compute.any(gaps).as_py():
        row = first + gaps.to_pylist().index(True) + 1
        raise InputError("missing_value", f"row {row}: the label is missing")
    is_time = types.is_timestamp(column.type) and column.type.tz is None
    if is_time or (is_number(column.type) and not types.is_decimal(column.type)):
        return column.to_numpy(zero_copy_only=False)
    return np.array([str(value) for value in column.to_pylist()], object)


def check_labels(y: Array, first: int = 0) -> None:
    """Raise InputError missing_value if a label in y (n,) is None, nan or similar; `first` is the row of y[0]."""
    gaps = np.isnan(y) if y.dtype.kind in "fmM" else np.zeros(len(y), bool)
    if y.dtype.kind == "O":
        gaps = np.array([value is None or str(value) in ("<NA>", "NaT", "nan") for value in y], bool)
    if gaps.any():
        row = first + int(np.argmax(gaps)) + 1
        raise InputError("missing_value", f"row {row}: the label is missing")
