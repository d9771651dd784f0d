"""Which sweep comes next. Pure: no clock, no disk."""

from enum import Enum

# Rows that rest are left out of short sweeps, but what rests at a w that is far off may have to move later.
WHOLE_EVERY = 5
# Sweep while the gap halves every 30 sweeps: a pass costs as much as ten, and momentum begins anew after it.
_HALVING_SWEEPS = 30


class Next(Enum):
    """WHOLE: over all rows. SHORT: over those that do not rest. STOP: look where training is, at one w."""

    WHOLE = "whole"
    SHORT = "short"
    STOP = "stop"


def next_sweep(gaps: list[float], has_to_end: bool) -> Next:
    """After sweeps that met these gaps. The first is whole, and so is each fifth.

    has_to_end  training is near enough to what is wanted, or out of time
    """
    if has_to_end or has_slowed_down(gaps):
        return Next.STOP
    return Next.SHORT if len(gaps) % WHOLE_EVERY else Next.WHOLE


def has_slowed_down(gaps: list[float]) -> bool:
    """Whether the last sweeps brought little, by the gaps they met."""
    return len(gaps) > _HALVING_SWEEPS and 2.0 * gaps[-1] >= gaps[-1 - _HALVING_SWEEPS]
