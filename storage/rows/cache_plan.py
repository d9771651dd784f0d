"""Divides `cache_bytes`: size and number of segments, and number of segments that a step may write. Pure arithmetic."""

from dataclasses import dataclass

from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.segment import packed_bytes, room

PAGE = 4096
LMDB_PAGE_HEADER = 16  # bytes: a value as long as some pages, minus this header, fills the pages exactly
LARGEST_SEGMENT = 1 << 20
SMALLEST_SEGMENT = PAGE
FEWEST_LIVE = 8
_SEGMENTS_WANTED = 128


@dataclass(frozen=True)
class CachePlan:
    """The division of a cache of `cache_bytes`.

    segment_bytes   size of a segment
    most_live       most segments in the cache after a step
    fresh_per_step  most segments of newly read rows that a step adds
    most_retired    most segments that a step retires; rows that stay go into most_retired - fresh_per_step segments
    """

    cache_bytes: int
    segment_bytes: int
    most_live: int
    fresh_per_step: int
    most_retired: int

    @property
    def row_bytes(self) -> int:
        """Bytes of packed rows that a full cache holds."""
        return self.most_live * room(self.segment_bytes)

    @property
    def longest_row(self) -> int:
        """Number of values of the longest sparse row that fits into a segment."""
        return (room(self.segment_bytes) - packed_bytes(1, 0)) // packed_bytes(0, 1)

    def sure_bytes(self, longest_row: int) -> int:
        """Return the bytes of rows that surely fit into the cache, if no row has over `longest_row` non-zeros."""
        whole = room(self.segment_bytes)
        # The builder closes a segment when the next row does not fit: two successive ones exceed one full segment.
        return max(self.most_live * (whole - packed_bytes(1, longest_row) + 1), (self.most_live - 1) * whole // 2)


def least_segment(longest_row: int) -> int:
    """Return the smallest size of a segment, with LMDB's page header, that holds a row of `longest_row` non-zeros."""
    needed = packed_bytes(1, longest_row) + PAGE - room(PAGE) + LMDB_PAGE_HEADER
    return max(SMALLEST_SEGMENT, 1 << (needed - 1).bit_length())


def plan_cache(cache_bytes: int, longest_row: int) -> CachePlan:
    """Return the plan for rows of at most `longest_row` non-zeros. Raises CacheTooSmall, naming the smallest cache."""
    least = least_segment(longest_row)
    wanted = min(LARGEST_SEGMENT, 1 << max(0, (cache_bytes // _SEGMENTS_WANTED).bit_length() - 1))
    plan = _divide(cache_bytes, max(least, wanted))
    if plan.most_live < FEWEST_LIVE:
        needed = least * FEWEST_LIVE
        while _divide(needed, least).most_live < FEWEST_LIVE:
            needed += least
        raise CacheTooSmall(
            f"a cache of {cache_bytes} bytes is too small: rows of up to {longest_row} non-zeros need {needed} bytes",
            f"Ask for a cache of at least {needed} bytes.",
        )
    return plan


def _divide(cache_bytes: int, size: int) -> CachePlan:
    # Pages that LMDB itself needs: two meta pages, and the tree and free list of the last few transactions.
    bookkeeping = 10 + cache_bytes // size // 12
    slots = (cache_bytes // PAGE - bookkeeping) * PAGE // size
    # With more fresh segments per step, the fixed cost of a step is spread over more rows, but the reserve is larger.
    fresh = max(1, min(8, slots // 64))
    retired = 2 * fresh + (fresh + 1) // 2
    # LMDB reuses freed pages only two steps later: segments written in two steps must fit beside the live segments.
    reserve = 2 * retired + 1
    # LMDB's own pages may split runs of free pages, each then too short for a segment: up to 6, measured under churn.
    reserve += 0 if size == PAGE else 8
    return CachePlan(cache_bytes, size - LMDB_PAGE_HEADER, slots - reserve, fresh, retired)
