"""Solves positive definite systems by LAPACK's Cholesky factors, even systems that are singular up to rounding."""

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.rows.csr import Array

SMALL = 1000  # equations: matrices up to this size are factored by several threads, one each, in little time
_FIRST_RIDGE, _MORE_RIDGE, _LARGEST_RIDGE = 1e-12, 100.0, 1.0
_FLOP = 1e-9  # seconds, on a slow core that is shared with others
_LEAST_PIVOT = 1e-13  # of the scaled matrix: below it the solution is made of rounding


GoOn = Callable[[float], None]


def no_matter(_seconds: float) -> None:
    """Do nothing: a GoOn that never ends the work."""


def solve_positive(matrix: Array, right: Array, go_on: GoOn = no_matter) -> Array:
    """Return x with matrix x = right, (n,) or (n, k). matrix (n, n) is positive definite; its lower half is read.

    The matrix is overwritten.

    Rows and columns are scaled to a diagonal of ones: features may differ by many orders of magnitude. If the matrix is
    singular up to rounding, as with equal columns, a ridge is added, if need be a larger one. Raises ValuesOverflow.

    go_on  is called before each factorisation with the seconds that it may take; may raise an error to end the work
    """
    scale = 1.0 / np.sqrt(np.diag(matrix))
    matrix *= scale
    matrix *= scale[:, np.newaxis]
    ridge = 0.0
    seconds = _FLOP * len(matrix) ** 3 / 3.0
    go_on(seconds)
    while (factor := _factor(matrix)) is None and ridge < _LARGEST_RIDGE:
        larger = max(_FIRST_RIDGE, ridge * _MORE_RIDGE)
        matrix[np.diag_indices(len(matrix))] += larger - ridge
        ridge = larger
        go_on(seconds)
    if factor is None:
        raise ValuesOverflow("the system of a Newton step")
    # LAPACK takes a matrix column by column without a copy.
    lies = (factor.T, 0) if factor.flags.c_contiguous else (factor, 1)
    solution, _ = dpotrs(lies[0], (scale * right.T).T, lower=lies[1])
    return np.asarray((scale * solution.T).T)


def _factor(matrix: Array) -> Array | None:
    """Return the lower Cholesky factor; None if the matrix has none, or one that is mostly rounding.

    numpy factors small matrices, in memory for a copy, and lets other threads work meanwhile; scipy does neither.
    """
    if len(matrix) <= SMALL:
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None
    else:
        factor, column = dpotrf(matrix, lower=1, clean=0)
        if column:
            return None
    return factor if np.diag(factor).min() ** 2 >= _LEAST_PIVOT else None
