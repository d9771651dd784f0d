"""The tables that are trained on: real ones, scikit-learn's own, and a generated one on odd scales."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn import datasets

from tests.bench.real_data import Rows, is_there, rows_of
from tests.reference.data import available, load, one_vs_rest

LARGEST_SCALE = 6.0  # columns have scales from 1 to ten to this power
_SHARE_OF_NOISE = 2.0


def with_equal_columns(n_rows: int = 20_000, n_columns: int = 28, seed: int = 0) -> Rows:
    """Normal columns of scales 1 to 1e6, five of them twice, and two constant ones.

    A plane tells the classes apart, with as much noise again.
    """
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    plane = rng.normal(size=n_columns)
    y = np.sign(table @ plane + _SHARE_OF_NOISE * rng.normal(size=n_rows))
    scaled = table * (10 ** rng.uniform(0.0, LARGEST_SCALE, n_columns)).astype(np.float32)
    return sparse.csr_matrix(np.hstack([scaled, scaled[:, :5], np.ones((n_rows, 2), np.float32)])), y


def toy(name: str, positive: int) -> Rows:
    """One of scikit-learn's own tables as it is, a class against the rest."""
    made = getattr(datasets, f"load_{name}")()
    return sparse.csr_matrix(made.data), one_vs_rest(made.target, positive)


def class_of(name: str, positive: int) -> Rows:
    """A class of a real data set against the rest."""
    X, y = load(name)
    return X, one_vs_rest(y, positive)


PROBLEMS: dict[str, Callable[[], Rows]] = {
    "iris": lambda: toy("iris", 1),
    "wine": lambda: toy("wine", 1),
    "breast_cancer": lambda: toy("breast_cancer", 1),
    "digits8": lambda: toy("digits", 8),
    "dna1": lambda: class_of("dna", 1),
    "letter1": lambda: class_of("letter", 1),
    "a9a": lambda: rows_of("a9a"),
    "mushrooms": lambda: rows_of("mushrooms"),
    "skin_nonskin": lambda: rows_of("skin_nonskin"),
    "equal_columns": with_equal_columns,
}
_FILES = {"dna1": "dna", "letter1": "letter"}


def is_available(name: str) -> bool:
    """Whether the problem can be made here."""
    if name in _FILES:
        return available(_FILES[name])
    return name not in ("a9a", "mushrooms", "skin_nonskin") or is_there(name)
