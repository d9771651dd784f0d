"""Which segments leave the cache, and which of their rows stay. A pure function, as in a log-structured store.

Eviction is by row, space is by segment: the segments with the fewest rows worth keeping are retired and those rows
written together into new ones (Rosenblum and Ousterhout 1992, cleaning by lowest utilisation).
"""

from dataclasses import dataclass

import numpy as np

from storage.csr import Array
from storage.repack_kernel import best_rows


@dataclass(frozen=True)
class Candidates:
    """Rows of the segments that may be retired, segment after segment.

    segment (n,) int    number of the row's segment among the candidates, not decreasing
    score   (n,) float32 highest leaves first; -inf stays as long as there is room at all, +inf leaves in any case
    bytes   (n,) int    packed size of the row
    """

    segment: Array
    score: Array
    bytes: Array

    def of(self, rows: Array) -> "Candidates":
        """Some of them, by position."""
        return Candidates(self.segment[rows], self.score[rows], self.bytes[rows])


@dataclass(frozen=True)
class Repack:
    """What leaves.

    retired  numbers of the candidate segments to remove
    kept     (n,) bool, rows of those that stay
    worth    (n_segments,) bytes of rows worth keeping in each candidate
    """

    retired: Array
    kept: Array
    worth: Array


def plan_repack(candidates: Candidates, n_segments: int, to_free: int, most_retired: int, segment_room: int) -> Repack:
    """Free the space of `to_free` of the `n_segments` candidates by retiring at most `most_retired` (>= to_free).

    `segment_room` is the bytes of rows a segment holds. The rows kept fit into len(retired) - to_free segments.
    """
    n_rows = len(candidates.score)
    if to_free <= 0:
        return Repack(np.empty(0, np.int64), np.zeros(n_rows, bool), np.zeros(n_segments))
    # Rows are packed in order: at the end of a segment about one row's room is lost (a long row's, if lengths vary).
    sizes = candidates.bytes.astype(np.float64)
    lost = float(np.sum(sizes**2) / max(np.sum(sizes), 1.0))
    usable = max(segment_room - lost, segment_room / 2)

    _, worth = _best_rows(candidates, n_segments, (n_segments - to_free) * usable)
    emptiest = np.argsort(worth)
    retired = emptiest[: _enough(worth[emptiest], to_free, most_retired, usable)]

    is_retired = np.zeros(n_segments, bool)
    is_retired[retired] = True
    of_retired = np.flatnonzero(is_retired[candidates.segment])
    best, _ = _best_rows(candidates.of(of_retired), n_segments, (len(retired) - to_free) * usable)
    kept = np.zeros(n_rows, bool)
    kept[of_retired[best]] = True
    return Repack(np.sort(retired), kept, worth)


def _best_rows(candidates: Candidates, n_segments: int, room: float) -> tuple[Array, Array]:
    """Mask of the rows of lowest score that fit into `room` bytes and may stay; their bytes by segment."""
    chosen, worth = np.empty(len(candidates.score), bool), np.zeros(n_segments)
    bits = np.ascontiguousarray(candidates.score, np.float32).view(np.int32)
    best_rows(bits, candidates.bytes, candidates.segment, room, chosen, worth)
    return chosen, worth


def _enough(worth_bytes: Array, to_free: int, most_retired: int, usable: float) -> int:
    """Fewest segments to retire, emptiest first, so that what is worth keeping fits into `to_free` fewer."""
    limit = min(most_retired, len(worth_bytes))
    counts = np.arange(1, limit + 1)
    fits = np.cumsum(worth_bytes[:limit]) <= (counts - to_free) * usable
    return int(np.argmax(fits)) + 1 if fits.any() else limit
