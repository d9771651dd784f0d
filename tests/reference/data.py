"""The real data sets that tests and tables use, read where they lie beside the repository; and a LIBSVM text writer."""

from __future__ import annotations

import bz2
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from numba import njit
from scipy import sparse
from sklearn.datasets import load_svmlight_file

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
CACHE = Path(tempfile.gettempdir()) / "streamsvm-test-data"

FILES = {
    "a9a": "a9a.libsvm.zst",
    "a9a.test": "a9a.t.libsvm.zst",
    "mushrooms": "mushrooms.libsvm.zst",
    "imdb.train": "imdb.train.libsvm.zst",
    "imdb.test": "imdb.test.libsvm.zst",
    "mnist.train": "mnist.train.multiclass.libsvm.zst",
    "mnist.test": "mnist.test.multiclass.libsvm.zst",
    "news20": "news20.multiclass.libsvm.bz2",
    "letter": "letter.multiclass.libsvm.zst",
    "dna": "dna.multiclass.libsvm.zst",
    "dna.test": "dna.t.multiclass.libsvm.zst",
}
# A test file need not mention the last features of its training file.
N_FEATURES = {"a9a": 123, "imdb": 743_951, "mnist": 784, "dna": 180}


def available(name: str) -> bool:
    """Whether the file of ``name`` (a key of FILES) is there."""
    return (DATA / FILES[name]).is_file()


def require(name: str) -> None:
    """Skip the running test when ``name`` is not there."""
    if not available(name):
        pytest.skip(f"data set {name} ({FILES[name]}) is not available")


def text(name: str) -> bytes:
    """The decompressed LIBSVM text of a data set."""
    path = DATA / FILES[name]
    with path.open("rb") as file:
        if path.suffix == ".bz2":
            return bz2.decompress(file.read())
        with zstandard.ZstdDecompressor().stream_reader(file) as reader:
            return reader.read()


def load(name: str) -> tuple[sparse.csr_matrix, np.ndarray]:
    """(X float64 (n_rows, n_features), y (n_rows,) as in the file); parsed once, then taken from a cache."""
    cached = CACHE / f"{name}.npz"
    if not cached.is_file():
        _parse_into(cached, name)
    with np.load(cached) as arrays:
        X = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
        return X, arrays["y"]


def _parse_into(path: Path, name: str) -> None:
    n_features = N_FEATURES.get(name.split(".", maxsplit=1)[0])
    X, y = load_svmlight_file(io.BytesIO(text(name)), n_features=n_features, zero_based=False)
    CACHE.mkdir(parents=True, exist_ok=True)
    # Renamed into place, for tests may run side by side.
    with tempfile.NamedTemporaryFile(dir=CACHE, suffix=".npz", delete=False) as file:
        np.savez(file, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    Path(file.name).replace(path)


def load_binary(name: str) -> tuple[sparse.csr_matrix, np.ndarray]:
    """As ``load``, the larger of two labels +1 and the other -1; 'mnist8' is digit 8 of mnist.train versus all."""
    if name == "mnist8":
        X, y = load("mnist.train")
        return X, one_vs_rest(y, 8)
    X, y = load(name)
    if np.unique(y).size != 2:
        raise ValueError(f"{name} has {np.unique(y).size} classes, not two")
    return X, one_vs_rest(y, y.max())


def one_vs_rest(y: np.ndarray, digit: float) -> np.ndarray:
    """+1.0 where ``y`` is ``digit``, -1.0 elsewhere."""
    return np.where(y == digit, 1.0, -1.0)


def write_libsvm(path: str | os.PathLike[str], X: sparse.csr_matrix, y: np.ndarray) -> None:
    """Write LIBSVM text, indices 1-based, values as %.9g (float32 survives); labels as %g."""
    X = X.sorted_indices()
    values = _Distinct(X.data, lambda value: b":%.9g" % value)
    columns = _Distinct(X.indices, lambda index: b" %d" % (index + 1))
    labels = _Distinct(np.asarray(y), lambda label: b"%g" % label)
    with Path(path).open("wb") as file:
        for first in range(0, X.shape[0], 4096):
            last = min(first + 4096, X.shape[0])
            entries = slice(X.indptr[first], X.indptr[last])
            indptr = X.indptr[first : last + 1] - X.indptr[first]
            parts = (labels.part(slice(first, last)), columns.part(entries), values.part(entries))
            sizes = sum(int((starts[codes + 1] - starts[codes]).sum()) for codes, _, starts in parts)
            buffer = np.empty(sizes + last - first, np.uint8)
            _join(buffer, indptr, *(array for part in parts for array in part))
            file.write(memoryview(buffer))


class _Distinct:
    """An array as codes into the texts of its distinct values: each is formatted once, however often it occurs."""

    def __init__(self, array: np.ndarray, text) -> None:
        distinct, self.codes = np.unique(array, return_inverse=True)
        texts = [text(value) for value in distinct.tolist()]
        self.starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
        self.bytes = np.frombuffer(b"".join(texts), np.uint8)

    def part(self, which: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.codes[which], self.bytes, self.starts


@njit(cache=True)
def _put(buffer, at, code, texts, starts):
    for position in range(starts[code], starts[code + 1]):
        buffer[at] = texts[position]
        at += 1
    return at


@njit(cache=True)
def _join(buffer, indptr, y, y_texts, y_starts, index, index_texts, index_starts, value, value_texts, value_starts):
    """Fill ``buffer`` with the lines of the rows that ``indptr`` delimits."""
    at = 0
    for row in range(indptr.shape[0] - 1):
        at = _put(buffer, at, y[row], y_texts, y_starts)
        for k in range(indptr[row], indptr[row + 1]):
            at = _put(buffer, at, index[k], index_texts, index_starts)
            at = _put(buffer, at, value[k], value_texts, value_starts)
        buffer[at] = 10
        at += 1
