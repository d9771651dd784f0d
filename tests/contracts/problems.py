"""Small problems for the contracts, and a dataset's rows read back by a way the trainer does not use."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import IndexBase, InputOptions
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.csr import Array, Rows


def random_problem(n_rows=300, n_features=150, row_length=15, noise=0.15, seed=0):
    """(X (n_rows, n_features) CSR of float32, unit rows; y of +1 and -1), not separable."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 2 * row_length, n_rows).clip(max=n_features)
    indices = np.concatenate([np.sort(rng.choice(n_features, length, replace=False)) for length in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = sparse.csr_matrix((rng.standard_normal(len(indices)), indices, indptr), (n_rows, n_features))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
    X = sparse.csr_matrix(sparse.diags(1 / np.ravel(norms)) @ X, dtype=np.float32)
    y = np.where(X @ rng.standard_normal(n_features) > 0, 1.0, -1.0)
    return X, np.where(rng.random(n_rows) < noise, -y, y)


def libsvm_text(X, y, index_base=1) -> bytes:
    """`X` CSR and `y` as LIBSVM text that keeps every float32."""
    X = sparse.csr_matrix(X).sorted_indices()
    lines = []
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)
        lines.append(" ".join([f"{y[i]:.17g}", *(f"{j + index_base}:{value:.9g}" for j, value in pairs)]))
    return ("\n".join(lines) + "\n").encode()


def weighted_text(X, y, weight, index_base=1) -> bytes:
    """The same of rows with weights (n_rows,)."""
    lines = libsvm_text(X, y, index_base).splitlines()
    texts = [line.replace(b" ", b":%.17g " % own, 1) for line, own in zip(lines, weight, strict=True)]
    return b"\n".join(texts) + b"\n"


def make_dataset(directory: Path, X, y, index_base: IndexBase = 1, seed: int = 0) -> Path:
    """The problem as a published dataset."""
    base = 1 if index_base == "auto" else index_base
    ingest([libsvm_text(X, y, base)], directory, InputOptions(index_base=index_base), seed=seed)
    return directory


def make_blocks(directory: Path, X, y, n_blocks: int) -> Path:
    """The problem as a dataset of so many blocks at least: rows that are added make new ones."""
    first, *others = np.array_split(np.arange(len(y)), n_blocks)
    make_dataset(directory, X[first], y[first])
    for rows in others:
        append_rows([libsvm_text(X[rows], y[rows])], directory, InputOptions(index_base=1), InputLimits(), threads=1)
    return directory


def a_dataset(*arguments: Any, **more: Any) -> Any:
    """A module's fixture: the dataset of `random_problem` with these arguments."""

    @pytest.fixture(scope="module")
    def dataset(tmp_path_factory):
        return make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(*arguments, **more))

    return dataset


def in_small_pieces(make: Callable[[Path], Path]) -> Any:
    """A module's fixture: the dataset that `make` makes in a directory, of many pieces."""

    @pytest.fixture(scope="module")
    def dataset(tmp_path_factory):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamsvm.reader.ingest.shuffle.PIECE_WORDS", 256)
            made = Dataset(make(tmp_path_factory.mktemp("data") / "data"))
        assert sum(len(made.pieces(block)) for block in range(len(made.manifest.blocks))) > 20
        return made.directory

    return dataset


def stored_rows(directory: Path) -> tuple[Rows, list[int]]:
    """All rows of a dataset in the order of their ids, and those ids as the pieces state them."""
    dataset = Dataset(directory)
    written = [location for k in range(len(dataset.manifest.blocks)) for location in dataset._written_pieces(k)]
    pieces = sorted(map(dataset.piece, written), key=lambda piece: piece.first_row)
    ids = [row for piece in pieces for row in range(piece.first_row, piece.first_row + len(piece))]
    return joined([piece.rows for piece in pieces]), ids


def joined(parts: list[Rows]) -> Rows:
    """All rows of all parts, in order."""
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return Rows(
        np.concatenate([part.label for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        _joined_column([part.weight for part in parts]),
        _joined_column([part.group for part in parts]),
    )


def _joined_column(columns: list[Array | None]) -> Array | None:
    """One that all parts have, or none."""
    known = [column for column in columns if column is not None]
    assert len(known) in (0, len(columns))
    return np.concatenate(known) if known else None


def stored_problem(directory: Path, positive: float | None, bias: float | None = None):
    """(X (n_rows, width) float64 CSR, y) by row id; the constant feature is the last, a float32 too.

    y is of +1 and -1, without `positive` the numbers to predict.
    """
    rows, _ = stored_rows(directory)
    width = Dataset(directory).manifest.width
    X = sparse.csr_matrix((rows.values.astype(float), rows.indices, rows.indptr), (len(rows), width))
    if bias is not None:
        X = sparse.csr_matrix(sparse.hstack([X, np.full((len(rows), 1), np.float32(bias), float)]))
    y = rows.label.astype(np.float32).astype(float) if positive is None else np.where(rows.label == positive, 1.0, -1.0)
    return X, y


def smallest_cache(longest_row: int = 100) -> int:
    """The least `cache_bytes` for such rows: some 30 kB of rows for short ones."""
    try:
        plan_cache(1, longest_row)
    except CacheTooSmall as error:
        return int(re.search(r"need (\d+) bytes", error.message).group(1))
    raise AssertionError("one byte is a cache")
