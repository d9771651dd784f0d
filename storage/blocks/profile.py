"""What the rows of a dataset look like, in a file beside its manifest. It is for people: nothing depends on it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file

# 2 has `warnings`. A profile is written as the oldest that can say it.
VERSION, _PLAIN_VERSION = 2, 1
_NAME = "profile.json"
_PAIRS = ("longest", "frequent", "scales")

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Profile:
    """Figures of the rows that a dataset was made with, not of those added later.

    rows          so many they are
    lengths       rows with 0 non-zeros, with 1, with 2 or 3, with 4 to 7, and so on
    longest       (row, non-zeros) of the longest, the longest first; rows count from 1, in the order of the input
    frequent      (feature, rows that have it) of the most frequent features, as the input numbers them
    counted_rows  rows in which features were counted: the first ones
    scales        (feature, root mean square of its values) of the largest and the smallest, the largest first, if they
                  are so far apart that training is slow; else none
    warnings      of columns that look as if they were no features, each with code and message
    """

    rows: int
    lengths: tuple[int, ...]
    longest: Pairs
    frequent: Pairs
    counted_rows: int
    scales: tuple[tuple[int, float], ...] = ()
    warnings: tuple[dict[str, str], ...] = ()


def write_profile(directory: Path, profile: Profile) -> None:
    """Store it, durably."""
    content = asdict(profile)
    if not profile.warnings:
        del content["warnings"]
    write_file(directory / _NAME, [pack(content, VERSION if profile.warnings else _PLAIN_VERSION)])


def read_profile(directory: Path) -> Profile | None:
    """The profile of a dataset; None if it has none, as those of older versions, or if it cannot be read."""
    try:
        content = unpack((directory / _NAME).read_bytes(), VERSION, "profile", "", _PLAIN_VERSION)
    except (OSError, StorageError):
        return None
    found: dict[str, Any] = {**content, "lengths": tuple(content["lengths"])}
    found["warnings"] = tuple(content.get("warnings", ()))
    for name in _PAIRS:
        found[name] = tuple(map(tuple, content.get(name, ())))
    return Profile(**found)
