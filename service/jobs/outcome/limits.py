"""How a job ended: the limits that it met, raising others would change nothing; and how near it is."""

from collections.abc import Mapping
from typing import Any

AVERAGED = "averaged"  # the stop_reason of several machines that had one round, to take the mean of it
_LIMITS = ("max_passes", "max_seconds")


def is_done(result: Mapping[str, Any]) -> bool:
    """Whether all is done that was asked for: it has converged, or the one round of an average is over."""
    return bool(result["converged"]) or result["stop_reason"] == AVERAGED


def limits_met(result: Mapping[str, Any]) -> list[str]:
    """The fields, of max_passes and max_seconds, that ended a lane of the result which has not converged."""
    lanes = [each for each in result.get("lanes", ()) if "stop_reason" in each] or [result]
    reasons = {each["stop_reason"] for each in lanes if not each["converged"]}
    return [name for name in _LIMITS if name in reasons]


def gap_of(job: Mapping[str, Any]) -> float | None:
    """M+ - M- of a job as it is shown: the certificate's if there is a result, else that of its progress."""
    shown = job["result"].get("certificate") if job["result"] else job["progress"]
    return (shown or {}).get("gap")
