"""Waiting for another process: short naps at first, so as not to be late, then longer ones: it may need the cores."""

import time

_SHORTEST_SECONDS, _LONGEST_SECONDS = 50e-6, 2e-3
_SHARE = 0.1


def nap(since: float) -> float:
    """Sleep for a tenth of the time that has passed since then, of time.perf_counter; for how long it was."""
    began = time.perf_counter()
    time.sleep(min(max(_SHARE * (began - since), _SHORTEST_SECONDS), _LONGEST_SECONDS))
    return time.perf_counter() - began
