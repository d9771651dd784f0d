"""When training of an estimator ends: `tolerance` and `relative_gap` as the fields of a job."""

from typing import Any

from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.spec import end_of

AUTO = "auto"  # relative_gap follows from the tolerance and the kernel


def given_ends(tolerance: float | None, relative_gap: float | str | None) -> dict[str, Any]:
    """The fields that these parameters set in a job, which fills in all others itself."""
    if relative_gap != AUTO:
        return {"tolerance": tolerance, "relative_gap": relative_gap}
    return {} if tolerance is None else {"tolerance": tolerance}


def ends(tolerance: float | None, relative_gap: float | str | None, kernel: str) -> tuple[float | None, float | None]:
    """The tolerance and the relative gap of a job of these parameters."""
    given = given_ends(tolerance, relative_gap)
    known = {name: FIELDS[name].default for name in ("tolerance", "relative_gap")}
    found = {**known, **end_of({"kernel": kernel, **given}), **given}
    return found["tolerance"], found["relative_gap"]


def are_reached(wanted: tuple[float | None, float | None], gap: float, relative_gap: float) -> bool:
    """Whether M+ - M- and the relative gap are both as small as is wanted; None: that one does not matter."""
    pairs = [(now, most) for now, most in zip((gap, relative_gap), wanted, strict=True) if most is not None]
    return bool(pairs) and all(now <= most for now, most in pairs)
