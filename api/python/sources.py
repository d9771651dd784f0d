"""Where rows come from: what `fit` takes as X, told apart, and made into what the engine reads in."""

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

# Of a pyarrow dataset at a time; it reads ahead.
_ROWS_OF_TABLE = 1 << 13
# Input options that choose columns.
_CHOICE = ("columns", "drop_columns")


@dataclass(frozen=True)
class Files:
    """Files that the engine reads itself, by paths, URLs or patterns; their rows come one file after the other."""

    paths: tuple[Path | str, ...]
    options: InputOptions

    @property
    def size(self) -> int | None:
        """Bytes; None: some are elsewhere."""
        here = [path for path in self.paths if isinstance(path, Path)]
        return None if len(here) < len(self.paths) else sum(path.stat().st_size for path in here)


@dataclass(frozen=True)
class Stream:
    """Batches as `reader.parsers.matrices.batches` has them, to be taken once; size: bytes, about, or None."""

    chunks: Iterator[bytes]
    options: InputOptions
    size: int | None


Source = Files | Stream


class Chunk(NamedTuple):
    """Rows of an iterator, and the names of their columns, if they have any."""

    X: Any
    y: Any
    weight: Any
    names: list[str] | None


def is_in_memory(X: Any) -> bool:
    """Whether X is a matrix or a data frame, not what rows are read from."""
    return not (is_files(X) or _is_dataset(X) or isinstance(X, Iterator))


def is_files(X: Any) -> bool:
    """A path, or several."""
    several = isinstance(X, list | tuple) and bool(X) and all(isinstance(each, str | os.PathLike) for each in X)
    return several or isinstance(X, str | os.PathLike)


def files(X: Any, y: Any, sample_weight: Any, given: dict[str, Any] | None) -> Files:
    """y and sample_weight are names or numbers of columns, or None; given: input options."""
    paths = tuple(_path(each) for each in (X if isinstance(X, list | tuple) else [X]))
    columns = {"label_column": y, "weight_column": sample_weight}
    named = {option: str(column) for option, column in columns.items() if column is not None}
    return Files(paths, InputOptions(**{**named, **(given or {})}))


def _path(given: Any) -> Path | str:
    is_elsewhere = isinstance(given, str) and (is_url(given) or (is_pattern(given) and not Path(given).exists()))
    return given if is_elsewhere else Path(given)


def chosen_columns(X: Any, given: dict[str, Any] | None) -> tuple[Any, tuple[str, ...]]:
    """X with the columns that `columns` and `drop_columns` of the input options leave, and the names of the others.

    Only of a data frame: the columns of a matrix are for its owner to choose. InputError columns_missing and the like.
    """
    names = column_names(X)
    if names is None or not any((given or {}).get(option) for option in _CHOICE):
        return X, ()
    found = new_columns(InputOptions(**(given or {})), Heading(names, len(names)), [], set())
    return selected(X, found.names), found.dropped


def _but_choice(given: dict[str, Any] | None) -> dict[str, Any]:
    """The input options without those by which columns have been chosen."""
    return {name: value for name, value in (given or {}).items() if name not in _CHOICE}


def matrix(X: Any, y: Any, weight: Any, names: Sequence[str] | None, given: dict[str, Any] | None) -> Stream:
    """X (n_rows, n_columns) checked, y (n_rows,) of numbers, names of the columns."""
    head = [] if names is None else [name_array(names)]
    options = _as_batches(given if names is None else _but_choice(given))
    return Stream(chain(head, batches(X, y, weight)), options, size_of(X))


def chunks(X: Any, y: Any, sample_weight: Any, labels: Labels, given: dict[str, Any] | None) -> Stream:
    """An iterator of (X, y) or (X, y, weight), or a pyarrow dataset, whose columns y and sample_weight name."""
    if _is_dataset(X):
        options = InputOptions(**(given or {}))
        return Stream(_encoded(_tables(X, y, sample_weight, options), labels), _as_batches(_but_choice(given)), None)
    if y is not None or sample_weight is not None:
        raise ValueError("an iterator brings y and sample_weight with each chunk: leave them out")
    return Stream(_encoded(map(_chunk, X), labels), _as_batches(given), None)


def _as_batches(given: dict[str, Any] | None) -> InputOptions:
    return replace(InputOptions(**(given or {})), format="batches", index_base=0)


def _encoded(parts: Iterable[Chunk], labels: Labels) -> Iterator[bytes]:
    """Names before the first chunk, and where they change."""
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
        X = X.astype(np.float64)  # ValueError for what is no number
    return X, y, weight


def _is_dataset(X: Any) -> bool:
    """A pyarrow dataset or table, told without importing pyarrow."""
    return type(X).__module__.startswith("pyarrow.") and hasattr(X, "to_batches") and hasattr(X, "schema")


def _tables(dataset: Any, y: Any, weight: Any, options: InputOptions) -> Iterator[Chunk]:
    # Needs pyarrow, which is there if there is a dataset.
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
    found = new_columns(options, heading, places, set(), index_of(dataset.schema))
    tell(OddColumns(found).warnings())
    wanted = [*found.names, *aside]
    # A dataset reads far ahead unless told not to; a table has all its rows in memory.
    is_read = hasattr(dataset, "scanner")
    ahead = {"columns": wanted, "batch_size": _ROWS_OF_TABLE, "batch_readahead": 1, "fragment_readahead": 1}
    for batch in dataset.to_batches(**ahead) if is_read else dataset.select(wanted).to_batches():
        if batch.num_rows:
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in found.names]
            weights = None if weight is None else batch.column(weight).to_numpy(zero_copy_only=False)
            yield Chunk(np.column_stack(columns), np.array(batch.column(label).to_pylist()), weights, found.names)
