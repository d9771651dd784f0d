"""The tables and texts that are trained on: real ones, scikit-learn's own, and generated ones on odd scales."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn import datasets

from tests.bench.real_data import Rows, is_there, rows_of
from tests.reference.data import available, load, one_vs_rest

LARGEST_SCALE = 6.0  # columns have scales from 1 to ten to this power
_SHARE_OF_NOISE = 2.0


def unscaled(n_rows: int, n_columns: int, seed: int = 0) -> Rows:
    """Normal columns of scales 1 to 1e6; classes by a plane, with as much noise again."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    plane = rng.normal(size=n_columns)
    y = np.sign(table @ plane + _SHARE_OF_NOISE * rng.normal(size=n_rows))
    return sparse.csr_matrix(table * (10 ** rng.uniform(0.0, LARGEST_SCALE, n_columns)).astype(np.float32)), y


def with_equal_columns(n_rows: int = 20_000, n_columns: int = 28) -> Rows:
    """An unscaled table with five of its columns twice, and two constant ones."""
    X, y = unscaled(n_rows, n_columns)
    return sparse.csr_matrix(sparse.hstack([X, X[:, :5], np.ones((n_rows, 2), np.float32)])), y


def toy(name: str, positive: int) -> Rows:
    """One of scikit-learn's own tables as it is, a class against the rest."""
    made = getattr(datasets, f"load_{name}")()
    return sparse.csr_matrix(made.data), one_vs_rest(made.target, positive)


def class_of(name: str, positive: int) -> Rows:
    """A class of a real data set against the rest."""
    X, y = load(name)
    return X, one_vs_rest(y, positive)


PROBLEMS: dict[str, Callable[[], Rows]] = {
    "a9a": lambda: rows_of("a9a"),
    "mushrooms": lambda: rows_of("mushrooms"),
    "dna1": lambda: class_of("dna", 1),
    "letter1": lambda: class_of("letter", 1),
    "mnist8": lambda: rows_of("mnist8"),
    "news20": lambda: rows_of("news20"),
    "imdb.train": lambda: rows_of("imdb.train"),
    "skin_nonskin": lambda: rows_of("skin_nonskin"),
    "iris": lambda: toy("iris", 1),
    "breast_cancer": lambda: toy("breast_cancer", 1),
    "digits8": lambda: toy("digits", 8),
    "wine": lambda: toy("wine", 1),
    "unscaled": lambda: unscaled(20_000, 28),
    "equal_columns": with_equal_columns,
    "table200": lambda: unscaled(300_000, 200),
    "million": lambda: unscaled(1_000_000, 28),
}
_FILES = {"dna1": "dna", "letter1": "letter"}


def is_available(name: str) -> bool:
    """Whether the problem can be made here."""
    if name in _FILES:
        return available(_FILES[name])
    is_real = name in ("a9a", "mushrooms", "mnist8", "news20", "imdb.train", "skin_nonskin")
    return not is_real or is_there(name)
