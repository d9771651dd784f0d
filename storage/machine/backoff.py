"""Waits for another process: short sleeps at first, to react fast, then longer sleeps, to leave it the cores."""

import time

_SHORTEST_SECONDS, _LONGEST_SECONDS = 50e-6, 2e-3
_SHARE = 0.1


def backoff_sleep(since: float) -> float:
    """Sleep for a tenth of the time since `since` (a time.perf_counter), 50 us to 2 ms; return the seconds slept."""
    began = time.perf_counter()
    time.sleep(min(max(_SHARE * (began - since), _SHORTEST_SECONDS), _LONGEST_SECONDS))
    return time.perf_counter() - began
