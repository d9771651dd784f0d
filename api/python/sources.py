"""Tells the kinds of X apart that `fit` takes, and turns X into a source that ingest reads."""

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.labels import Labels
from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions, options_from
from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.reader.parsers.tables.mixed_columns import new_columns
from streamsvm.reader.sources.files import is_pattern, is_url
from streamsvm.service.remote.frames import column_names, is_frame, selected

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 20
# Input options that choose columns.
_CHOICE = ("columns", "drop_columns")
# Input options that only tables have, except those that choose columns.
TABLE = {"group_column", "categorical", "categories", "missing", "string_column", "text_column", "header"}


@dataclass(frozen=True)
class Files:
    """A source of files that ingest reads one after the other: paths, URLs or patterns."""

    paths: tuple[Path | str, ...]
    options: InputOptions

    @property
    def size(self) -> int | None:
        """Bytes of all files; None if some are on other machines."""
        here = [path for path in self.paths if isinstance(path, Path)]
        return None if len(here) < len(self.paths) else sum(path.stat().st_size for path in here)


@dataclass(frozen=True)
class Stream:
    """A source of bytes: batches (see `reader.parsers.matrices`), or streams of Arrow, which are read once.

    size    estimated bytes, None if unknown
    beside  options whose columns, of labels or weights, were appended to the columns of a frame
    """

    chunks: Iterator[bytes]
    options: InputOptions
    size: int | None
    beside: tuple[str, ...] = ()


Source = Files | Stream


def asks_for_table(options: dict[str, Any] | None) -> bool:
    """Tell whether the options have one that only a table can have."""
    return bool(options_from(options).given & TABLE)


def without_beside(input_: dict[str, Any], beside: Sequence[str]) -> dict[str, Any]:
    """Return a model's `input` without the columns of labels and weights that were appended to the frame's columns."""
    left = {name: value for name, value in input_.items() if name not in beside}
    return {**left, "n_columns": input_["n_columns"] - len(beside)}


def is_files(X: Any) -> bool:
    """Tell whether X is a path, or a list or tuple of paths."""
    several = isinstance(X, list | tuple) and bool(X) and all(isinstance(each, str | os.PathLike) for each in X)
    return several or isinstance(X, str | os.PathLike)


def files(X: Any, y: Any, sample_weight: Any, options: dict[str, Any] | None) -> Files:
    """Make the source of files.

    y, sample_weight  names or numbers of columns, or None
    options           input options by name
    """
    paths = tuple(_path(each) for each in (X if isinstance(X, list | tuple) else [X]))
    columns = {"label_column": y, "weight_column": sample_weight}
    named = {option: str(column) for option, column in columns.items() if column is not None}
    return Files(paths, options_from({**named, **(options or {})}))


def _path(text: Any) -> Path | str:
    is_elsewhere = isinstance(text, str) and (is_url(text) or (is_pattern(text) and not Path(text).exists()))
    if not is_elsewhere and Path(text).is_dir():
        raise InputError("source_is_folder", f"{text} is a folder")
    return text if is_elsewhere else Path(text)


def chosen_columns(X: Any, options: dict[str, Any] | None) -> tuple[Any, tuple[str, ...]]:
    """Apply the input options `columns` and `drop_columns` to a data frame; return it, and names of dropped columns.

    A matrix is returned unchanged, because its columns have no names. Raises InputError, such as columns_missing.
    """
    names = column_names(X)
    if names is None or not any((options or {}).get(option) for option in _CHOICE):
        return X, ()
    match = new_columns(options_from(options), Heading(names, len(names)), [], set())
    return selected(X, match.names), match.dropped


def matrix(X: Any, y: Any, weight: Any, names: Sequence[str] | None, options: dict[str, Any] | None) -> Stream:
    """Make the source of a checked matrix.

    X        (n_rows, n_columns)
    y        (n_rows,) numbers
    weight   (n_rows,) or None
    names    names of the columns, or None
    options  input options by name
    """
    head = [] if names is None else [name_array(names)]
    # `chosen_columns` has applied those that choose.
    left = {name: value for name, value in (options or {}).items() if names is None or name not in _CHOICE}
    size = 8 * (X.nnz if sparse.issparse(X) else X.size)
    return Stream(chain(head, batches(X, y, weight)), _as_batches(left), size)


def chunks(X: Any, y: Any, sample_weight: Any, labels: Labels, options: dict[str, Any] | None) -> Stream:
    """Make the source of an iterator of (X, y) or (X, y, weight), or of a frame.

    y, sample_weight  columns of the frame, or arrays; None for an iterator
    options           input options by name
    """
    if is_frame(X):
        return table(X, y, sample_weight, labels, options)
    if y is not None or sample_weight is not None:
        raise ValueError("an iterator brings y and sample_weight with each chunk: leave them out")
    first = next(X, None)
    are_frames = isinstance(first, tuple) and bool(first) and is_frame(first[0])
    rest = (_chunk(part, are_frames) for part in (X if first is None else chain([first], X)))
    if are_frames:
        return Stream(*_tables().table_streams(rest, labels, options))
    encoded = (batch for X, y, weight in rest for batch in batches(X, labels.encode(y), weight))
    return Stream(encoded, _as_batches(options), None)


def as_table(X: Any, y: Any, weight: Any, input_: dict[str, Any], options: dict[str, Any] | None) -> Stream:
    """Make the source of a checked matrix that follows frames: its columns are those of the frames, in their order.

    Raises ValueError if a column of the frames, whose `input` is `input_`, has words.
    """
    if input_["categorical"]:
        raise ValueError("the rows before have words in their columns: give these as a data frame, too")
    dense = X.toarray() if sparse.issparse(X) else X
    names = input_["columns"] if input_["has_names"] else None
    return Stream(*_tables().stream_of_matrix(dense, names, y, weight, options))


def table(
    X: Any, y: Any, sample_weight: Any, labels: Labels | None, options: dict[str, Any] | None, labelled: bool = True
) -> Stream:
    """Make the source of a data frame, a table or a reader; for the arguments see `table_stream`."""
    return Stream(*_tables().table_stream(X, y, sample_weight, labels, options, labelled))


def _tables() -> Any:
    # pyarrow is slow to import.
    from streamsvm import tables  # noqa: PLC0415

    return tables


def _as_batches(options: dict[str, Any] | None) -> InputOptions:
    return replace(options_from(options), format="batches", index_base=0)


def _chunk(part: Any, is_of_frames: bool) -> tuple[Any, Any, Any]:
    """Return X, y and weight of a chunk; a matrix and its labels are checked. Raises ValueError."""
    if not isinstance(part, tuple) or len(part) not in (2, 3):
        raise ValueError("a chunk is (X, y) or (X, y, sample_weight)")
    X, y, weight = (*part, None)[:3]
    # A frame whose columns have no names counts as a matrix after matrices.
    is_alike = is_frame(X) if is_of_frames else not (is_frame(X) and column_names(X))
    if not is_alike:
        raise ValueError("columns of some chunks have names, those of others have none")
    return (X, y, weight) if is_of_frames else _checked(X, y, weight)


def _checked(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    y, weight = np.asarray(y), None if weight is None else np.asarray(weight, np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1] or (weight is not None and weight.shape != y.shape):
        raise ValueError(f"a chunk has X of shape {X.shape} and y of shape {y.shape}")
    if X.dtype.kind not in "biuf":
        X = X.astype(np.float64)  # raises ValueError for text that is not a number
    return X, y, weight


def batches(X: Any, y: Any, weight: Any = None) -> Iterator[bytes]:
    """Yield batches of rows as bytes, in the format of `reader.parsers.matrices`.

    X       (n_rows, n_columns), an array or a CSR matrix
    y       (n_rows,) numbers
    weight  (n_rows,) numbers, or None
    """
    begin = 0
    while begin < X.shape[0]:
        end = _end(X, begin)
        part = sparse.csr_matrix(X[begin:end])
        part.sum_duplicates()
        file = io.BytesIO()
        weights = () if weight is None else weight[begin:end]
        for array in (part.shape, y[begin:end], part.indptr, part.indices, part.data, weights):
            np.save(file, np.asarray(array), allow_pickle=False)
        yield file.getvalue()
        begin = end


def name_array(names: Sequence[str]) -> bytes:
    """Return the bytes that give the column names of all following batches."""
    file = io.BytesIO()
    np.save(file, np.array(names, str), allow_pickle=False)
    return file.getvalue()


def _end(X: Any, begin: int) -> int:
    """Return the end of the batch that begins at this row, so that it has at most _MOST_ROWS and _MOST_VALUES."""
    most = min(X.shape[0], begin + _MOST_ROWS)
    if sparse.issparse(X):
        last = int(np.searchsorted(X.indptr, int(X.indptr[begin]) + _MOST_VALUES, "right")) - 1
    else:
        last = begin + _MOST_VALUES // max(1, X.shape[1])
    return min(most, max(last, begin + 1))
