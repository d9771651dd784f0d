"""Which segments leave the cache, and which of their rows stay. A pure function, as in a log-structured store.

Eviction is by row, space is by segment: the segments with the fewest rows worth keeping are retired and those rows
written together into new ones (Rosenblum and Ousterhout 1992, cleaning by lowest utilisation).
"""

from dataclasses import dataclass

import numpy as np

from storage.csr import Array


@dataclass(frozen=True)
class Candidates:
    """Rows of the segments that may be retired, segment after segment.

    segment (n,) int    number of the row's segment among the candidates, not decreasing
    score   (n,) float  highest leaves first; -inf stays as long as there is room at all, +inf leaves in any case
    bytes   (n,) int    packed size of the row
    """

    segment: Array
    score: Array
    bytes: Array


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
    by_score = np.argsort(candidates.score)

    worth = _best_rows(candidates, by_score, (n_segments - to_free) * usable)
    worth_bytes = np.bincount(candidates.segment[worth], candidates.bytes[worth], n_segments)
    emptiest = np.argsort(worth_bytes)
    retired = emptiest[: _enough(worth_bytes[emptiest], to_free, most_retired, usable)]

    is_retired = np.zeros(n_segments, bool)
    is_retired[retired] = True
    of_retired = is_retired[candidates.segment]
    best_of_retired = by_score[of_retired[by_score]]
    kept = _best_rows(candidates, best_of_retired, (len(retired) - to_free) * usable)
    return Repack(np.sort(retired), kept, worth_bytes)


def _best_rows(candidates: Candidates, by_score: Array, room: float) -> Array:
    """Mask of the first rows in `by_score` that fit into `room` bytes and may stay."""
    mask = np.zeros(len(candidates.score), bool)
    fitting = by_score[np.cumsum(candidates.bytes[by_score]) <= room]
    mask[fitting[candidates.score[fitting] < np.inf]] = True
    return mask


def _enough(worth_bytes: Array, to_free: int, most_retired: int, usable: float) -> int:
    """Fewest segments to retire, emptiest first, so that what is worth keeping fits into `to_free` fewer."""
    limit = min(most_retired, len(worth_bytes))
    counts = np.arange(1, limit + 1)
    fits = np.cumsum(worth_bytes[:limit]) <= (counts - to_free) * usable
    return int(np.argmax(fits)) + 1 if fits.any() else limit
