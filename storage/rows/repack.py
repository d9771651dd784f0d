"""Decides which segments the cache retires, and which of their rows stay. Pure functions.

Rows are evicted one by one, but only whole segments free space. As in a log-structured file system that cleans by
lowest utilisation (Rosenblum and Ousterhout 1992), the segments with the fewest bytes of rows worth keeping are
retired, and these rows are written together into new segments.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment_kernel import best_rows


@dataclass(frozen=True)
class Candidates:
    """The rows of some segments, segment after segment.

    segment (n,) int      number of the row's segment among these segments, from 0, not decreasing
    score   (n,) float32  rows of highest score are evicted first; -inf stays if there is any room, +inf never stays
    bytes   (n,) int      packed size of the row
    """

    segment: Array
    score: Array
    bytes: Array


def usable_room(bytes_: Array, segment_room: int) -> float:
    """Return the bytes, out of `segment_room`, that rows of sizes `bytes_` (n,) are expected to fill of a segment."""
    # Rows are packed in order. At the end of a segment the room of about one row is lost, more often of a long row.
    sizes = bytes_.astype(np.float64)
    lost = float(np.sum(sizes**2) / max(np.sum(sizes), 1.0))
    return max(segment_room - lost, segment_room / 2)


def appraise(rows: Candidates, n_segments: int, room: float) -> tuple[Array, Array]:
    """Choose the rows of lowest score that fit into `room` bytes together; a row of score +inf is never chosen.

    Returns a mask (n,) of the chosen rows, and the bytes of chosen rows in each segment, (n_segments,).
    """
    best, worth = np.empty(len(rows.score), bool), np.zeros(n_segments)
    bits = np.ascontiguousarray(rows.score, np.float32).view(np.int32)
    best_rows(bits, rows.bytes, rows.segment, room, best, worth)
    return best, worth


def choose_segments(worth: Array, to_free: int, most_retired: int, usable: float) -> Array:
    """Return the fewest segments to retire, emptiest first, to free the space of `to_free` segments.

    worth   (n_segments,) bytes of rows worth keeping in each; those of k retired segments must fit into k - to_free
    most_retired  most segments returned, >= to_free; as many are returned even if they do not free enough space
    usable  bytes of rows that a new segment can hold, see `usable_room`
    """
    emptiest = np.argsort(worth, kind="stable")[: min(most_retired, len(worth))]
    counts = np.arange(1, len(emptiest) + 1)
    fits = np.cumsum(worth[emptiest]) <= (counts - to_free) * usable
    return emptiest[: int(np.argmax(fits)) + 1] if fits.any() else emptiest
