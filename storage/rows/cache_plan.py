"""How `cache_bytes` is divided: size and number of segments, and how many a step may write. Pure arithmetic."""

from dataclasses import dataclass

from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.segment import packed_bytes, room

PAGE = 4096
LMDB_PAGE_HEADER = 16  # a value of whole pages less this fills them exactly
LARGEST_SEGMENT = 1 << 20
SMALLEST_SEGMENT = PAGE
FEWEST_LIVE = 8
_SEGMENTS_WANTED = 128


@dataclass(frozen=True)
class CachePlan:
    """What a cache of `cache_bytes` may hold.

    segment_bytes   size of a segment's value
    most_live       segments in the cache after a step
    fresh_per_step  most segments of newly read rows a step brings
    most_retired    most segments a step repacks; it writes at most most_retired - fresh_per_step instead
    """

    cache_bytes: int
    segment_bytes: int
    most_live: int
    fresh_per_step: int
    most_retired: int

    @property
    def row_bytes(self) -> int:
        """Bytes of rows the cache holds when full."""
        return self.most_live * room(self.segment_bytes)

    @property
    def longest_row(self) -> int:
        """Non-zeros of the longest row that it has room for."""
        return (room(self.segment_bytes) - packed_bytes(1, 0)) // packed_bytes(0, 1)

    def sure_bytes(self, longest_row: int) -> int:
        """Bytes of rows, of up to so many non-zeros each, that the cache holds whatever their lengths are."""
        whole = room(self.segment_bytes)
        # A segment is closed by a row that has no room in it, so two in turn hold more than one full one.
        return max(self.most_live * (whole - packed_bytes(1, longest_row) + 1), (self.most_live - 1) * whole // 2)


def least_segment(longest_row: int) -> int:
    """Size of the smallest segment, with its page header, that has room for a row of so many non-zeros."""
    needed = packed_bytes(1, longest_row) + PAGE - room(PAGE) + LMDB_PAGE_HEADER
    return max(SMALLEST_SEGMENT, _power_of_two_from(needed))


def plan_cache(cache_bytes: int, longest_row: int) -> CachePlan:
    """The plan for rows of at most `longest_row` non-zeros; raises CacheTooSmall with the least that would do."""
    least = least_segment(longest_row)
    wanted = min(LARGEST_SEGMENT, _power_of_two_upto(cache_bytes // _SEGMENTS_WANTED))
    plan = _divide(cache_bytes, max(least, wanted))
    if plan.most_live < FEWEST_LIVE:
        needed = _least_cache(least)
        raise CacheTooSmall(
            f"a cache of {cache_bytes} bytes is too small: rows of up to {longest_row} non-zeros need {needed} bytes",
            f"Ask for a cache of at least {needed} bytes.",
        )
    return plan


def _divide(cache_bytes: int, size: int) -> CachePlan:
    # LMDB's own pages: two meta pages, and the tree and free list of the last few transactions.
    bookkeeping = 10 + cache_bytes // size // 12
    slots = (cache_bytes // PAGE - bookkeeping) * PAGE // size
    # What a step costs beside its bytes is shared by more rows if it brings more, and is some more room kept free.
    fresh = max(1, min(8, slots // 64))
    retired = 2 * fresh + (fresh + 1) // 2
    # LMDB reuses the pages a step freed two steps later: what two steps write must fit beside what is live.
    reserve = 2 * retired + 1
    # Its own pages may fall into free runs of pages and spoil each for a segment; measured under churn, up to 6.
    reserve += 0 if size == PAGE else 8
    return CachePlan(cache_bytes, size - LMDB_PAGE_HEADER, slots - reserve, fresh, retired)


def _least_cache(size: int) -> int:
    cache_bytes = size * FEWEST_LIVE
    while _divide(cache_bytes, size).most_live < FEWEST_LIVE:
        cache_bytes += size
    return cache_bytes


def _power_of_two_from(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _power_of_two_upto(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1)
