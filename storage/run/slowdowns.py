"""Slowdowns: a slowdown is a faster method that a job has given up. Users see each slowdown once, with a hint.

A run's control page stores slowdowns as bits. The trainer writes new slowdowns into the history.
"""

from collections.abc import Collection
from typing import NamedTuple


class Slowdown(NamedTuple):
    """The message and the hint that users see for a slowdown."""

    message: str
    hint: str


# The order of the slowdowns is that of their bits.
SLOWDOWNS = {
    "disk_full": Slowdown(
        "active rows have no file of their own, each sweep reads all rows: the file takes twice its size of free space",
        "Free space on the disk of the data directory, or raise cache_bytes until all rows fit.",
    ),
    "disk_slow": Slowdown(
        "rows come from the reader again, pass after pass: the disk gave less than 200 MB/s of them, decoded",
        "Move the data directory to a faster disk, or raise cache_bytes until all rows fit.",
    ),
    "disk_failed": Slowdown(
        "rows come from the reader again, pass after pass: the disk failed, or takes no unnamed files",
        "Have the disk of the data directory checked, or raise cache_bytes until all rows fit.",
    ),
    "disk_uncached": Slowdown(
        "some rows are read from the disk itself in each sweep: half of the free memory does not hold all",
        "Give the job a machine or a control group with more memory.",
    ),
    "cache_too_small": Slowdown(
        "the cache does not hold all rows, and nothing else does: each pass decodes them anew",
        "Raise cache_bytes above the dataset's decoded_bytes, or take the solver streamsvm at pace adaptive.",
    ),
    "cache_on_disk": Slowdown(
        "the job's cache is on disk: STREAMSVM_CACHE_DIR is missing or has no room for it",
        "Make /dev/shm larger, name another place in memory, or lower cache_bytes.",
    ),
    "lanes_apart": Slowdown(
        "there is no memory for as many problems side by side as could be: they are trained in more groups",
        "Raise memory_bytes, or ask for fewer classes, values of C or folds at a time.",
    ),
    "one_thread": Slowdown(
        "threads are asked for, and one trains: the solver, the loss or pace fixed has no more",
        "Take the solver streamsvm, or a kernel machine, at pace adaptive; or leave threads out.",
    ),
    "pool_without_room": Slowdown(
        "there is no room to train rows of several machines, or the longest of them, in one place",
        "Free space on the disk of the data directory.",
    ),
    "certified_alone": Slowdown(
        "one thread looks at all rows for a certificate: weights are too many for each thread to have a copy",
        "Ask for fewer features of the maps that make them, or for fewer threads.",
    ),
    "newton_without_room": Slowdown(
        "Newton steps would have ended training sooner, and there is no memory for them: sweeps go on",
        "Raise memory_bytes, give the job a machine with more memory, or train fewer classes, values of C or folds.",
    ),
    "newton_given_up": Slowdown(
        "Newton steps led no further, or their systems would have become too large: sweeps go on",
        "Ask for a larger relative_gap or tolerance, or train on fewer features.",
    ),
    "scales_differ": Slowdown(
        "features are on scales far apart: training may take several times as long, or not come to an end, "
        "and a kernel's distances are those of the largest features",
        'Ask for "features": ["scale"]; a kernel takes none, scale its rows before.',
    ),
}
_BITS = {code: 1 << place for place, code in enumerate(SLOWDOWNS)}


def bits_of(codes: Collection[str]) -> int:
    """Return the bits, for a control page, of the slowdowns with these codes."""
    return sum(_BITS[code] for code in set(codes))


def told(bits: int) -> list[dict[str, str]]:
    """Return the code, message and hint of each slowdown whose bit is set in `bits` of a control page."""
    return [{"code": code, **SLOWDOWNS[code]._asdict()} for code, bit in _BITS.items() if bits & bit]
