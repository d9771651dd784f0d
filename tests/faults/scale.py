"""How many faults there are to be: a few in the suite of every day, all when FAULTS=1000, as `make faults` has it."""

import os


def count(few: int, at_1000: int) -> int:
    """So many of the day's, or the share of `at_1000` that FAULTS asks for."""
    faults = os.environ.get("FAULTS")
    return few if faults is None else max(1, at_1000 * int(faults) // 1000)
