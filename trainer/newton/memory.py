"""How many bytes Newton steps hold, before any is taken."""

from dataclasses import dataclass

from streamsvm.storage.run.state import width_for
from streamsvm.trainer.newton.cholesky import SMALL
from streamsvm.trainer.newton.own_rows import row_bytes
from streamsvm.trainer.newton.scans import SUMS
from streamsvm.trainer.newton.system import BATCH_BYTES, LARGEST, sums_of

_NUMBER = 8
_VALUE_BYTES = 12  # of a value in a sparse row: float64, and its feature
_VECTORS = SUMS + 7  # as long as w, of each task: sums of a scan, w, v, the best w, the centre's, gradient, direction
_SQUARES = 20  # bytes of a pair of rows: of the matrix, and of its factor or of products that are to be entered
_SMALL_SQUARES = 16  # of each small matrix that is being factored: of a copy, and of the factor


@dataclass(frozen=True)
class ProblemShape:
    """The size of the problems that Newton steps solve side by side.

    columns     optional ones that rows have: weights, targets
    row_values  non-zeros of a row, on average
    """

    n_rows: int
    n_features: int
    n_tasks: int
    columns: int
    row_values: float
    threads: int

    @property
    def most_equations(self) -> int:
        """Equations of the largest system there can be."""
        return min(self.n_rows, self.n_features, LARGEST)


def bytes_held(shape: ProblemShape, equations: int) -> int:
    """Bytes while no system has more than so many equations."""
    rows = shape.n_rows * row_bytes(shape.n_tasks, shape.columns)
    vectors = _NUMBER * shape.n_features * _VECTORS * width_for(shape.n_tasks)
    return rows + vectors + min(shape.threads, SUMS) * BATCH_BYTES + _system_bytes(shape, equations)


def equations_within(size: int, shape: ProblemShape) -> int:
    """The most equations for which so many bytes are enough; LARGEST if they are for any system; 0: for none."""
    low, high = 0, shape.most_equations
    if bytes_held(shape, high) <= size:
        return LARGEST
    while low + 1 < high:  # enough for low, not for high
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_held(shape, middle) <= size else (low, middle)
    return low


def _system_bytes(shape: ProblemShape, equations: int) -> int:
    """All tasks have their system at the same time, and one of them is being solved, or several small ones."""
    at_once = min(shape.threads, SUMS, shape.n_tasks)
    # Of one of them the factor is counted already.
    small = (_SMALL_SQUARES * at_once - _NUMBER) * min(equations, SMALL) ** 2
    values = equations * shape.row_values * (shape.n_tasks + 1)
    of_rows = _SQUARES * equations**2 + small + int(_VALUE_BYTES * values)
    if equations < shape.n_features:
        return of_rows
    matrix = _NUMBER * shape.n_features**2
    return max(of_rows, matrix * (shape.n_tasks * sums_of(shape.n_features) + 1) + small)
