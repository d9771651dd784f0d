"""The warning that a Gaussian kernel does not tell rows apart.

Commands that only watch a job import it; what measures the distances (`plan/gamma.py`) imports scipy, which is slow.
"""

from collections.abc import Mapping
from math import exp
from typing import Any

_NEARLY = 1e-3  # kernel values so near to 0, or to 1, say nothing


def warning_of(distances: Mapping[str, Any]) -> str | None:
    """The warning, if nearly all kernel values are 0 or nearly all are 1; `distances`: the view of a Distances."""
    gamma, low, middle, high = (distances[name] for name in ("gamma", "low", "median", "high"))
    # Kernel values of rows that are far apart, and of rows that are near each other.
    smallest, largest = exp(-gamma * high), exp(-gamma * low)
    if largest > _NEARLY and smallest < 1.0 - _NEARLY:
        return None
    return (
        f"with gamma {gamma:.3g} nearly all kernel values are {0 if largest <= _NEARLY else 1}: squared distances of "
        f"rows are {low:.3g} to {high:.3g}, {middle:.3g} in the middle; "
        f"a gamma near {1.0 / max(middle, 1e-300):.3g} tells rows apart"
    )
