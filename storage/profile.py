"""What the rows of a dataset look like, in a file beside its manifest. It is for people: nothing depends on it."""

from dataclasses import asdict, dataclass
from pathlib import Path

from storage.document import pack, unpack
from storage.durable import write_file
from storage.errors import StorageError

VERSION = 1
_NAME = "profile.json"

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Profile:
    """Of the rows that a dataset was made with, not of those added later.

    rows          so many they are
    lengths       rows with 0 non-zeros, with 1, with 2 or 3, with 4 to 7, and so on
    longest       (row, non-zeros) of the longest, the longest first; rows count from 1, in the order of the input
    frequent      (feature, rows that have it) of the most frequent features, as the input numbers them
    counted_rows  rows in which features were counted: the first ones
    """

    rows: int
    lengths: tuple[int, ...]
    longest: Pairs
    frequent: Pairs
    counted_rows: int


def write_profile(directory: Path, profile: Profile) -> None:
    """Store it, durably."""
    write_file(directory / _NAME, [pack(asdict(profile), VERSION)])


def read_profile(directory: Path) -> Profile | None:
    """The profile of a dataset; None if it has none, as those of older versions, or if it cannot be read."""
    try:
        content = unpack((directory / _NAME).read_bytes(), VERSION, "profile", "")
    except (OSError, StorageError):
        return None
    pairs = {name: tuple(map(tuple, content[name])) for name in ("longest", "frequent")}
    return Profile(**{**content, **pairs, "lengths": tuple(content["lengths"])})
