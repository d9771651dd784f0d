"""Computes how many bytes Newton steps will hold."""

from dataclasses import dataclass

from streamsvm.storage.run.state import width_for
from streamsvm.trainer.newton.own_rows import row_bytes
from streamsvm.trainer.newton.scans import SUMS
from streamsvm.trainer.newton.system import BATCH_BYTES, LARGEST, SMALL, sums_of

_NUMBER = 8
_VALUE_BYTES = 12  # of a value in a sparse row: float64, and its feature
_VECTORS = SUMS + 7  # as long as w, of each task: sums of a scan, w, v, the best w, the centre's, gradient, direction
_SQUARES = 20  # bytes of a pair of rows: of the matrix, and of its factor or of products that are to be entered
_SMALL_SQUARES = 16  # of each small matrix that is being factored: of a copy, and of the factor


@dataclass(frozen=True)
class ProblemShape:
    """The size of the problems that Newton steps solve side by side.

    columns     number of optional columns that rows have: weights, targets
    row_values  mean number of non-zeros of a row
    """

    n_rows: int
    n_features: int
    n_tasks: int
    columns: int
    row_values: float
    threads: int

    @property
    def most_equations(self) -> int:
        """Number of equations of the largest possible system."""
        return min(self.n_rows, self.n_features, LARGEST)


def bytes_held(shape: ProblemShape, equations: int) -> int:
    """Return the bytes that Newton steps hold while no system has more than `equations` equations."""
    rows = shape.n_rows * row_bytes(shape.n_tasks, shape.columns)
    vectors = _NUMBER * shape.n_features * _VECTORS * width_for(shape.n_tasks)
    return rows + vectors + min(shape.threads, SUMS) * BATCH_BYTES + _system_bytes(shape, equations)


def equations_within(size: int, shape: ProblemShape) -> int:
    """Return the most equations for which `size` bytes are enough; LARGEST if any system fits; 0 if none does."""
    low, high = 0, shape.most_equations
    if bytes_held(shape, high) <= size:
        return LARGEST
    while low + 1 < high:  # enough for low, not for high
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_held(shape, middle) <= size else (low, middle)
    return low


def _system_bytes(shape: ProblemShape, equations: int) -> int:
    """Return the bytes of systems: every task has one, and at the same time one or several small ones are solved."""
    at_once = min(shape.threads, SUMS, shape.n_tasks)
    # Of one of them the factor is counted already.
    small = (_SMALL_SQUARES * at_once - _NUMBER) * min(equations, SMALL) ** 2
    values = equations * shape.row_values * (shape.n_tasks + 1)
    of_rows = _SQUARES * equations**2 + small + int(_VALUE_BYTES * values)
    if equations < shape.n_features:
        return of_rows
    matrix = _NUMBER * shape.n_features**2
    return max(of_rows, matrix * (shape.n_tasks * sums_of(shape.n_features) + 1) + small)
