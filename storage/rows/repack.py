"""Which segments leave the cache, and which of their rows stay. Pure functions, as in a log-structured store.

Eviction is by row, space is by segment: the segments with the fewest rows worth keeping are retired and those rows
written together into new ones (Rosenblum and Ousterhout 1992, cleaning by lowest utilisation).
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.repack_kernel import best_rows


@dataclass(frozen=True)
class Candidates:
    """The rows of some segments, segment after segment.

    segment (n,) int      number of the row's segment among those looked at, not decreasing
    score   (n,) float32  highest leaves first; -inf stays as long as there is room at all, +inf leaves in any case
    bytes   (n,) int      packed size of the row
    """

    segment: Array
    score: Array
    bytes: Array


def usable_room(bytes_: Array, segment_room: int) -> float:
    """What can be counted on of the `segment_room` bytes of a segment, for rows of these sizes (n,)."""
    # Rows are packed in order: at the end of a segment about one row's room is lost (a long row's, if lengths vary).
    sizes = bytes_.astype(np.float64)
    lost = float(np.sum(sizes**2) / max(np.sum(sizes), 1.0))
    return max(segment_room - lost, segment_room / 2)


def appraise(rows: Candidates, n_segments: int, room: float) -> tuple[Array, Array]:
    """The rows of lowest score that fit into `room` bytes and may stay: a mask (n,), and their bytes by segment."""
    best, worth = np.empty(len(rows.score), bool), np.zeros(n_segments)
    bits = np.ascontiguousarray(rows.score, np.float32).view(np.int32)
    best_rows(bits, rows.bytes, rows.segment, room, best, worth)
    return best, worth


def choose_segments(worth: Array, to_free: int, most_retired: int, usable: float) -> Array:
    """The segments to retire, the emptiest first, so that the space of `to_free` of them comes free.

    worth (n_segments,) is the bytes of rows worth keeping in each. As few as will do, at most `most_retired`
    (>= to_free): what is worth keeping in them fits into `to_free` fewer.
    """
    emptiest = np.argsort(worth, kind="stable")[: min(most_retired, len(worth))]
    counts = np.arange(1, len(emptiest) + 1)
    fits = np.cumsum(worth[emptiest]) <= (counts - to_free) * usable
    return emptiest[: int(np.argmax(fits)) + 1] if fits.any() else emptiest
