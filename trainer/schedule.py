"""Which sweep comes next. Pure: no clock, no disk."""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Place:
    """Where a run of sweeps is.

    gaps      that its sweeps have met
    is_exact  w is the sum of alpha_i y_i x_i to the last digits: several threads lose some of it until a whole sweep
    is_due    a checkpoint is to be made, of a w that is exact
    has_to_end  it is near enough to what is wanted, or out of time
    """

    gaps: list[float]
    is_exact: bool
    is_due: bool
    has_to_end: bool


def next_sweep(place: Place) -> Next:
    """The first is whole, so is each fifth, and the last one if w is not exact."""
    if place.has_to_end or has_slowed_down(place.gaps):
        return Next.STOP if place.is_exact else Next.WHOLE
    is_whole = len(place.gaps) % WHOLE_EVERY == 0 or (place.is_due and not place.is_exact)
    return Next.WHOLE if is_whole else Next.SHORT


def has_slowed_down(gaps: list[float]) -> bool:
    """Whether the last sweeps brought little, by the gaps they met."""
    return len(gaps) > _HALVING_SWEEPS and 2.0 * gaps[-1] >= gaps[-1 - _HALVING_SWEEPS]
