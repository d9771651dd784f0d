"""Which sweep comes next. Pure: no clock, no disk."""

from enum import Enum

# Rows that rest are left out of short sweeps, but what rests at a w that is far off may have to move later.
WHOLE_EVERY = 5
# Measured: with 63 MB of rows two threads take as long as one, or longer; with 456 MB two thirds of that.
_SHARED_BYTES, _SHARED_ROW_BYTES = 1 << 27, 512


class Next(Enum):
    """WHOLE: over all rows. SHORT: over those that do not rest. STOP: look where training is, at one w."""

    WHOLE = "whole"
    SHORT = "short"
    STOP = "stop"


def next_sweep(sweeps: int, has_to_end: bool) -> Next:
    """After so many sweeps. The first is whole, and so is each fifth.

    has_to_end  training is near enough to what is wanted, or out of time
    """
    if has_to_end:
        return Next.STOP
    return Next.SHORT if sweeps % WHOLE_EVERY else Next.WHOLE


def is_told(sweep: int) -> bool:
    """Whether a history has the sweep of this number: the first 31, and ever fewer of those that follow."""
    return sweep % (1 << max(0, sweep.bit_length() - 5)) == 0


def is_worth_threads(n_bytes: int, n_rows: int) -> bool:
    """Whether sweeps over so many bytes of rows are to be shared: for fewer, waiting costs more than it gains.

    A row has to be long beside the lock that its addition to w takes.
    """
    return n_bytes >= _SHARED_BYTES and n_bytes >= _SHARED_ROW_BYTES * n_rows
