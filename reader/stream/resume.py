"""Begins a run with the alpha of an earlier run: checks that w belongs to alpha, or computes w; refills the cache."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from streamsvm.reader.stream.passes import Passes
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.files.arrays import scratch
from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment import CODE, NORM, OFFSET, ROW_WEIGHT, TARGET, Segment
from streamsvm.storage.run.checkpoint import Checkpoint
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.objective import Objective, add_mapped, sizes_of

_TOLERANCE, _ROUNDING = 1e-9, 1e-12


def check_w_error(error: float, size: float) -> None:
    """Raise CheckpointUnsound if `error` = |w - sum_i alpha_i y_i x_i| / |w| exceeds what rounding can cause.

    size  sum_i |alpha_i| |x_i| / |w|: it is large if terms cancel out, as with features on scales far apart, and then
          rounding errors are large
    """
    if not error <= _TOLERANCE + _ROUNDING * size:
        raise CheckpointUnsound(f"the weights of the checkpoint differ by {error:g} of them from those alpha makes")


class WeightCheck:
    """Checks the alpha and w of a checkpoint: `add` all rows of the problem, then `finish`.

    `add` raises CheckpointUnsound if alpha is out of its bounds, `finish` if w is not sum_i alpha_i y_i x_i.
    The constructor copies alpha, since training may change it meanwhile.
    """

    def __init__(self, objective: Objective, alpha: Array, w: Array, visited: Visited = UNMAPPED) -> None:
        self._visited = visited
        self._objective = objective
        self._alpha = alpha.copy()
        self._w = w
        self._v, self._size = np.zeros_like(w), 0.0

    def add(self, rows: Segment) -> None:
        """Check that the rows' alpha are in their bounds, and add alpha_i y_i x_i of the rows to the sum."""
        alpha, terms = self._alpha[rows.row_id], self._objective.tasks.terms(rows)
        outside = np.argwhere(alpha != self._objective.projected(terms, alpha))
        if len(outside):
            row, value = rows.row_id[outside[0][0]], alpha[tuple(outside[0])]
            raise CheckpointUnsound(f"the checkpoint has alpha = {value:g} for row {row}: out of its bounds")
        coefficients = self._objective.coefficients(terms, alpha)
        self._size += float(sizes_of(rows, coefficients).sum())
        add_mapped(rows, coefficients, self._visited, self._v)

    def finish(self) -> None:
        """Compare w with sum_i alpha_i y_i x_i over all rows."""
        w_norm = max(float(np.linalg.norm(self._w)), 1e-300)
        check_w_error(float(np.linalg.norm(self._w - self._v)) / w_norm, self._size / w_norm)


def make_w(passes: Passes, objective: Objective, state: State, beat: Callable[[], object]) -> None:
    """Compute w = sum_i alpha_i y_i x_i before training, for a warm start on a dataset from which rows were removed."""
    alpha = state.alpha[: passes.n_rows]
    w = np.zeros((passes.width, alpha.shape[1]))  # private memory, as in the trainer

    def add(rows: Segment) -> None:
        coefficients = objective.coefficients(objective.tasks.terms(rows), alpha[rows.row_id])
        add_mapped(rows, coefficients, passes.visited, w)

    passes.visit_all(add, beat)
    state.w[: passes.width] = w


class ResidentCollector:
    """Collects the rows that were in the cache at a checkpoint, from a stream of all rows in any order.

    It stores features in unnamed files beside the checkpoint, since the cache needs the memory.
    """

    def __init__(self, checkpoint: Checkpoint, n_rows: int) -> None:
        self._row_id = checkpoint["resident_row_id"]
        self._sizes = checkpoint["segment_rows"]
        self._indptr = np.concatenate(([0], np.cumsum(checkpoint["resident_nnz"], dtype=np.int64)))
        self._place = np.full(n_rows, -1, np.int32)
        self._place[self._row_id] = np.arange(len(self._row_id), dtype=np.int32)
        types = {"class_code": CODE, "fold": CODE, "Qii": NORM, "target": TARGET, "weight": ROW_WEIGHT}
        self._columns = {name: np.zeros(len(self._row_id), dtype) for name, dtype in types.items()}
        self._indices = scratch(checkpoint.path.parent, INDEX, int(self._indptr[-1]))
        self._values = scratch(checkpoint.path.parent, VALUE, int(self._indptr[-1]))

    def add(self, rows: Segment) -> None:
        """Store those of the rows that were resident at the checkpoint. Raises CheckpointUnsound if lengths differ."""
        place = self._place[rows.row_id]
        resident = np.flatnonzero(place >= 0)
        place = place[resident]
        for name, column in tuple(self._columns.items()):
            values = getattr(rows, name)
            if len(values):
                column[place] = values[resident]
            elif len(rows):
                self._columns[name] = values  # a column that the rows do not have
        lengths = np.diff(self._indptr)[place]
        rows = rows.with_indices
        if not np.array_equal(np.diff(rows.indptr)[resident], lengths):
            stays = rows.values != 0  # the checkpoint is of a version that had no dense rows
            indptr = np.concatenate(([0], np.cumsum(stays)))[rows.indptr].astype(OFFSET)
            rows = replace(rows, indptr=indptr, indices=rows.indices[stays], values=rows.values[stays])
        if not np.array_equal(np.diff(rows.indptr)[resident], lengths):
            raise CheckpointUnsound("rows of the cache have other lengths than the dataset's")
        source = _ranges(rows.indptr[resident], rows.indptr[resident + 1])
        target = _ranges(self._indptr[place], self._indptr[place + 1])
        self._indices[target], self._values[target] = rows.indices[source], rows.values[source]

    def segments(self) -> Iterator[Segment]:
        """Yield the segments of the cache, with the rows and the order that they had at the checkpoint."""
        first = 0
        for size in self._sizes.tolist():
            rows = slice(first, first + size)
            start, end = self._indptr[first], self._indptr[first + size]
            yield Segment(
                row_id=self._row_id[rows],
                **{name: column[rows] for name, column in self._columns.items()},
                indptr=(self._indptr[first : first + size + 1] - start).astype(OFFSET),
                indices=self._indices[start:end],
                values=self._values[start:end],
            ).in_shortest_form
            first += size


def _ranges(starts: Array, ends: Array) -> Array:
    """Return the numbers start, ..., end - 1 of each range, one range after the other."""
    lengths = (ends - starts).astype(np.int64)
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return shift + np.arange(len(shift))
