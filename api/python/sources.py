"""Tells apart what `fit` takes as X, and turns it into a source that the engine reads."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamsvm.batches import batches, name_array, size_of
from streamsvm.errors import tell
from streamsvm.frames import column_names, selected
from streamsvm.labels import Labels
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.reader.parsers.tables.mixed_columns import new_columns
from streamsvm.reader.parsers.tables.odd_columns import OddColumns
from streamsvm.reader.sources.locations import is_pattern, is_url

# Rows that a pyarrow dataset reads at a time; it reads ahead.
_ROWS_OF_TABLE = 1 << 13
# Input options that choose columns.
_CHOICE = ("columns", "drop_columns")


@dataclass(frozen=True)
class Files:
    """Files that the engine reads one after the other: paths, URLs or patterns."""

    paths: tuple[Path | str, ...]
    options: InputOptions

    @property
    def size(self) -> int | None:
        """Bytes of all files; None if some are on other machines."""
        here = [path for path in self.paths if isinstance(path, Path)]
        return None if len(here) < len(self.paths) else sum(path.stat().st_size for path in here)


@dataclass(frozen=True)
class Stream:
    """Batches in the format of `reader.parsers.matrices.batches`, which can be read once.

    size  estimated bytes, None if unknown
    """

    chunks: Iterator[bytes]
    options: InputOptions
    size: int | None


Source = Files | Stream


class Chunk(NamedTuple):
    """Rows of an iterator, and the names of their columns, None if they have none."""

    X: Any
    y: Any
    weight: Any
    names: list[str] | None


def is_in_memory(X: Any) -> bool:
    """Tell whether X is a matrix or a data frame, not files, a dataset or an iterator."""
    return not (is_files(X) or _is_dataset(X) or isinstance(X, Iterator))


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
    return Files(paths, InputOptions(**{**named, **(options or {})}))


def _path(text: Any) -> Path | str:
    is_elsewhere = isinstance(text, str) and (is_url(text) or (is_pattern(text) and not Path(text).exists()))
    return text if is_elsewhere else Path(text)


def chosen_columns(X: Any, options: dict[str, Any] | None) -> tuple[Any, tuple[str, ...]]:
    """Apply the input options `columns` and `drop_columns` to a data frame; return it and the names of the others.

    A matrix is returned unchanged, because its columns have no names. Raises InputError columns_missing and the like.
    """
    names = column_names(X)
    if names is None or not any((options or {}).get(option) for option in _CHOICE):
        return X, ()
    match = new_columns(InputOptions(**(options or {})), Heading(names, len(names)), [], set())
    return selected(X, match.names), match.dropped


def _but_choice(options: dict[str, Any] | None) -> dict[str, Any]:
    """Return the input options without those that `chosen_columns` has applied."""
    return {name: value for name, value in (options or {}).items() if name not in _CHOICE}


def matrix(X: Any, y: Any, weight: Any, names: Sequence[str] | None, options: dict[str, Any] | None) -> Stream:
    """Make the source of a checked matrix.

    X        (n_rows, n_columns)
    y        (n_rows,) numbers
    weight   (n_rows,) or None
    names    names of the columns, or None
    options  input options by name
    """
    head = [] if names is None else [name_array(names)]
    read_as = _as_batches(options if names is None else _but_choice(options))
    return Stream(chain(head, batches(X, y, weight)), read_as, size_of(X))


def chunks(X: Any, y: Any, sample_weight: Any, labels: Labels, options: dict[str, Any] | None) -> Stream:
    """Make the source of an iterator of (X, y) or (X, y, weight), or of a pyarrow dataset.

    y, sample_weight  names of columns of the dataset; None for an iterator
    options           input options by name
    """
    if _is_dataset(X):
        chosen = InputOptions(**(options or {}))
        return Stream(_encoded(_tables(X, y, sample_weight, chosen), labels), _as_batches(_but_choice(options)), None)
    if y is not None or sample_weight is not None:
        raise ValueError("an iterator brings y and sample_weight with each chunk: leave them out")
    return Stream(_encoded(map(_chunk, X), labels), _as_batches(options), None)


def _as_batches(options: dict[str, Any] | None) -> InputOptions:
    return replace(InputOptions(**(options or {})), format="batches", index_base=0)


def _encoded(parts: Iterable[Chunk], labels: Labels) -> Iterator[bytes]:
    """Yield batches; column names come before the first chunk and wherever they change."""
    names: list[str] | None = None
    for place, part in enumerate(parts):
        X, y, weight = _checked(part.X, part.y, part.weight)
        if place and (names is None) != (part.names is None):
            raise ValueError("columns of some chunks have names, those of others have none")
        if part.names is not None and part.names != names:
            yield name_array(part.names)
        names = part.names
        yield from batches(X, labels.encode(y), weight)


def _chunk(part: Any) -> Chunk:
    if not isinstance(part, tuple) or len(part) not in (2, 3):
        raise ValueError("a chunk is (X, y) or (X, y, sample_weight)")
    X, y, weight = (*part, None)[:3]
    return Chunk(X, y, weight, column_names(X))


def _checked(X: Any, y: Any, weight: Any = None) -> tuple[Any, Any, Any]:
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    y, weight = np.asarray(y), None if weight is None else np.asarray(weight, np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1] or (weight is not None and weight.shape != y.shape):
        raise ValueError(f"a chunk has X of shape {X.shape} and y of shape {y.shape}")
    if X.dtype.kind not in "biuf":
        X = X.astype(np.float64)  # raises ValueError for text that is not a number
    return X, y, weight


def _is_dataset(X: Any) -> bool:
    """Tell whether X is a pyarrow dataset or table, without importing pyarrow."""
    return type(X).__module__.startswith("pyarrow.") and hasattr(X, "to_batches") and hasattr(X, "schema")


def _tables(dataset: Any, y: Any, weight: Any, options: InputOptions) -> Iterator[Chunk]:
    # Imports pyarrow, which is installed if there is a dataset.
    from streamsvm.reader.parsers.tables.parquet_file import index_of  # noqa: PLC0415

    names = list(dataset.schema.names)
    if not all(each is None or isinstance(each, str) for each in (y, weight)):
        raise ValueError("y and sample_weight of a pyarrow table or dataset are names of its columns")
    heading = Heading(names, len(names))
    label = names[heading.label()] if y is None else y
    aside = {label, weight} - {None}
    if missing := aside - set(names):
        raise ValueError(f"there is no column {missing.pop()!r}; the first are {', '.join(names[:8])}")
    places = [names.index(name) for name in aside]
    features = new_columns(options, heading, places, set(), index_of(dataset.schema))
    tell(OddColumns(features).warnings())
    wanted = [*features.names, *aside]
    # A dataset would read far ahead by default; a table has all its rows in memory.
    is_read = hasattr(dataset, "scanner")
    ahead = {"columns": wanted, "batch_size": _ROWS_OF_TABLE, "batch_readahead": 1, "fragment_readahead": 1}
    for batch in dataset.to_batches(**ahead) if is_read else dataset.select(wanted).to_batches():
        if batch.num_rows:
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in features.names]
            weights = None if weight is None else batch.column(weight).to_numpy(zero_copy_only=False)
            yield Chunk(np.column_stack(columns), np.array(batch.column(label).to_pylist()), weights, features.names)
