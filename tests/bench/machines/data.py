"""What kernel machines are trained on: two classes, rows held out, C and gamma."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tests.bench.machines.bumps import bumps
from tests.bench.real_data import Rows, is_there, rows_of, test_rows_of
from tests.reference.data import available, load, one_vs_rest

# C and gamma that `python -m tests.bench.machines.choose NAME` found best. Not of a9a: there it took the largest C it
# tries, for LIBSVM on 4,000 rows. On all rows LIBSVM is as good with these (85.0%), and a budget can follow.
PARAMETERS = {
    "a9a": (1.0, 2.0**-5),
    "mnist8": (16.0, 2.0**-7),
    "skin": (1.0, 2.0**7),
    "letter": (16.0, 2.0**-1),
    "bumps": (1.0, 2.0**2),
}
HELD_OUT = 0.2  # of the rows, at random, where there is no file of test rows
BUMPS_ROWS, BUMPS_TEST_ROWS = 50_000, 20_000
LETTER = 1.0  # class 1, "A", against the others


@dataclass(frozen=True)
class Problem:
    """X (n, d) CSR, y (n,) of +1 and -1; test rows alike."""

    name: str
    X: sparse.csr_matrix
    y: np.ndarray
    X_test: sparse.csr_matrix
    y_test: np.ndarray
    C: float
    gamma: float

    @property
    def about(self) -> str:
        """A heading."""
        return (
            f"{self.name}: {len(self.y):,} rows, {self.X.nnz / len(self.y):.0f} non-zeros each, "
            f"{np.mean(self.y > 0):.0%}"
            f" positive, C = {self.C:g}, gamma = {self.gamma:g}; {len(self.y_test):,} rows held out"
        )


def problem(name: str) -> Problem | None:
    """That of PARAMETERS; None: its data are not available."""
    found = _rows(name)
    if found is None:
        return None
    (X, y), (X_test, y_test) = ((X.astype(np.float32).sorted_indices(), y) for X, y in found)
    return Problem(name, X, y, X_test, y_test, *PARAMETERS[name])


def _rows(name: str) -> tuple[Rows, Rows] | None:
    if name == "bumps":
        return bumps(BUMPS_ROWS), bumps(BUMPS_TEST_ROWS, seed=1)
    if name == "skin":
        return parted(*rows_of("skin_nonskin")) if is_there("skin_nonskin") else None
    if name == "letter":
        return parted(*_letter()) if available("letter") else None
    test = test_rows_of(name)
    return (rows_of(name), test) if is_there(name) and test else None


def _letter() -> Rows:
    X, y = load("letter")
    return X, one_vs_rest(y, LETTER)


def parted(X: sparse.csr_matrix, y: np.ndarray) -> tuple[Rows, Rows]:
    """Rows to train on, and HELD_OUT of them, at random."""
    order = np.random.default_rng(0).permutation(len(y))
    held_out, own = np.split(order, [round(HELD_OUT * len(y))])
    return (X[own], y[own]), (X[held_out], y[held_out])
