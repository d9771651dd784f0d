"""What the trainer relies on in a cache, whatever keeps it."""

import numpy as np

from streamsvm.storage.rows.cache import CacheReader, CacheWriter, Step
from streamsvm.storage.rows.segment import HEADER


def make_step(number, fresh=(), resident=()) -> Step:
    return Step(
        number, 99, 9, 1, number // 2, number // 3, 10 * number, number, 5, number % 2 == 0, number % 6 == 0,
        (number / 7, 0.5), tuple(fresh), tuple(resident),
    )  # fmt: skip


def make_segment(segment_id: int, size: int) -> bytes:
    """A segment without rows, and other bytes in every page for every id."""
    filler = np.random.default_rng(segment_id).integers(0, 256, 61, np.uint8).tobytes()
    return bytes(HEADER.size + 4) + (filler * (size // 61 + 1))[: size - HEADER.size - 4]


def content(cache: CacheReader | CacheWriter, segment_id: int, size: int) -> np.ndarray:
    """All bytes of a segment, in place: found by its row pointers, which lie behind its header."""
    (rows,) = cache.read_all([segment_id]) if isinstance(cache, CacheWriter) else [cache.read(segment_id)]
    indptr = rows.indptr
    buffer = np.frombuffer(indptr.base, np.uint8)
    assert len(buffer) == size
    return buffer
