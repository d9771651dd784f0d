"""Going on from a checkpoint: alpha and the weights it makes are checked, the cache is filled as it was."""

from collections.abc import Iterator

import numpy as np

from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.files.scratch import scratch
from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment import CODE, NORM, OFFSET, ROW_WEIGHT, TARGET, Segment
from streamsvm.storage.run.checkpoint import Checkpoint
from streamsvm.trainer.problem.objective import Objective, add_to_w

_TOLERANCE = 1e-9


def check_w_error(error: float) -> None:
    """|w - sum_i alpha_i y_i x_i| / |w| of a run that began with a checkpoint; raises CheckpointUnsound."""
    if not error <= _TOLERANCE:
        raise CheckpointUnsound(f"the weights of the checkpoint differ by {error:g} of them from those alpha makes")


class WeightCheck:
    """`add` all rows of a problem, then `finish`.

    `add` raises CheckpointUnsound if alpha is out of its bounds, `finish` if w is not what alpha makes of the rows.
    alpha is copied: training may go on meanwhile. w is that of the checkpoint.
    """

    def __init__(self, objective: Objective, alpha: Array, w: Array, visited: Visited = UNMAPPED) -> None:
        self._visited = visited
        self._objective = objective
        self._alpha = alpha.copy()
        self._w = w
        self._v = np.zeros_like(w)

    def add(self, rows: Segment) -> None:
        """Take these rows in."""
        alpha, terms = self._alpha[rows.row_id], self._objective.tasks.terms(rows)
        outside = np.argwhere(alpha != self._objective.projected(terms, alpha))
        if len(outside):
            row, value = rows.row_id[outside[0][0]], alpha[tuple(outside[0])]
            raise CheckpointUnsound(f"the checkpoint has alpha = {value:g} for row {row}: out of its bounds")
        coefficients, begin = self._objective.coefficients(terms, alpha), 0
        for part in self._visited.all_batches(rows):
            add_to_w(part, coefficients[begin : begin + len(part)], self._v)
            begin += len(part)

    def finish(self) -> None:
        """Compare w, once all rows have been added."""
        check_w_error(float(np.linalg.norm(self._w - self._v)) / max(float(np.linalg.norm(self._w)), 1e-300))


class ResidentRows:
    """The rows that were in the cache, put together from a stream over all data, in any order.

    They lie in a file without a name beside the checkpoint until they are complete: memory is for the cache itself.
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
        """Keep those of these rows that were resident."""
        place = self._place[rows.row_id]
        found = np.flatnonzero(place >= 0)
        place = place[found]
        for name, column in tuple(self._columns.items()):
            own = getattr(rows, name)
            if len(own):
                column[place] = own[found]
            elif len(rows):
                self._columns[name] = own  # a column that the rows do not have
        source = _ranges(rows.indptr[found], rows.indptr[found + 1])
        target = _ranges(self._indptr[place], self._indptr[place + 1])
        self._indices[target], self._values[target] = rows.indices[source], rows.values[source]

    def segments(self) -> Iterator[Segment]:
        """The segments as they were, one after the other."""
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
            )
            first += size


def _ranges(starts: Array, ends: Array) -> Array:
    """The numbers from each start to its end (exclusive), one range after the other."""
    lengths = (ends - starts).astype(np.int64)
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return shift + np.arange(len(shift))
