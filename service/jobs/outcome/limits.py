"""The limits that ended a job before it converged: raising others would change nothing."""

from collections.abc import Mapping
from typing import Any

_LIMITS = ("max_passes", "max_seconds")


def limits_met(result: Mapping[str, Any]) -> list[str]:
    """The fields, of max_passes and max_seconds, that ended a lane of the result which has not converged."""
    lanes = [each for each in result.get("lanes", ()) if "stop_reason" in each] or [result]
    reasons = {each["stop_reason"] for each in lanes if not each["converged"]}
    return [name for name in _LIMITS if name in reasons]
