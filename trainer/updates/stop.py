"""When a job has trained enough."""

from streamsvm.trainer.updates.progress import Progress

# How much nearer than wanted a guess has to be, for a pass over all rows to be spent on finding out.
_TO_SPARE = 2.0

CONVERGED = ("tolerance", "relative_gap")


def seems_converged(progress: Progress, tolerance: float | None, relative_gap: float | None) -> str | None:
    """A reason of CONVERGED, by what a pass met; None: it does not.

    A pass that missed what its figure is about cannot stop on it.
    """
    if tolerance is not None and progress.is_of_all and progress.distance <= tolerance:
        return "tolerance"
    if relative_gap is not None and progress.relative_gap_bound <= relative_gap:
        return "relative_gap"
    return None


def limit_reached(pass_: int, max_passes: int, out_of_time: bool) -> str | None:
    """`max_passes`, `max_seconds`, or None to go on."""
    if pass_ >= max_passes:
        return "max_passes"
    return "max_seconds" if out_of_time else None


def has_likely_fallen(before: float, now: float, wanted: float | None) -> bool:
    """Whether what a pass found at a moving w is likely to be `wanted` at the w the pass ended with.

    If it has fallen by the same factor from `before` to `now`, and so on.
    """
    return wanted is not None and now < before and now * (now / before) * _TO_SPARE <= wanted
