"""The real data sets, as two classes, and test rows of some."""

from __future__ import annotations

import io

import numpy as np
import zstandard
from scipy import sparse

from tests.reference.data import DATA, available, load, load_binary, one_vs_rest

_SKIN = DATA / "skin_nonskin.tsv.zst"
_LARGEST_VALUE = 255.0
_NEWS20_CLASS = 1
_TESTS = {"a9a": "a9a.test", "imdb.train": "imdb.test", "mnist8": "mnist.test"}

Rows = tuple[sparse.csr_matrix, np.ndarray]


def is_there(name: str) -> bool:
    """Whether the file of a data set is available."""
    if name == "skin_nonskin":
        return _SKIN.is_file()
    return available({"mnist8": "mnist.train"}.get(name, name))


def rows_of(name: str) -> Rows:
    """(X (n_rows, n_features) float64, y (n_rows,) -1 or +1)."""
    if name == "skin_nonskin":
        return _skin()
    if name == "news20":
        X, y = load("news20")
        return X, one_vs_rest(y, _NEWS20_CLASS)
    return load_binary(name)


def test_rows_of(name: str) -> Rows | None:
    """The same of rows for testing; None: the set has none, or their file is not available."""
    if name not in _TESTS or not available(_TESTS[name]):
        return None
    if name == "mnist8":
        X, y = load("mnist.test")
        return X, one_vs_rest(y, 8)
    return load_binary(_TESTS[name])


def _skin() -> Rows:
    """Colours between 0 and 1, as mnist has its values; skin is the class 1 of the file and +1 here."""
    with _SKIN.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
        table = np.loadtxt(io.TextIOWrapper(reader))
    return sparse.csr_matrix(table[:, :-1] / _LARGEST_VALUE), one_vs_rest(table[:, -1], 1.0)
