"""The profile of a dataset, in a file beside its manifest: figures that people read, and no program depends on."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.durable import pack, unpack, write_file

# Version 2 added `warnings`. A profile has the oldest version that can express it.
VERSION, _PLAIN_VERSION = 2, 1
_NAME = "profile.json"
_PAIRS = ("longest", "frequent", "scales")

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Profile:
    """Figures of the rows with which a dataset was created; rows added later are not included.

    rows          number of these rows
    lengths       numbers of rows with 0 values, with 1, with 2 or 3, with 4 to 7, and so on
    longest       (row number, values) of the longest rows, longest first; rows are numbered from 1 in input order
    frequent      (feature, number of rows with it) of the most frequent features, by the input's numbers
    counted_rows  number of rows, from the first on, that were counted for `frequent`
    scales        (feature, root mean square of its values) of the largest and the smallest features, largest first; ()
                  unless their scales differ so much that training is slow
    warnings      code and message of each warning, for example about columns that are probably no features
    """

    rows: int
    lengths: tuple[int, ...]
    longest: Pairs
    frequent: Pairs
    counted_rows: int
    scales: tuple[tuple[int, float], ...] = ()
    warnings: tuple[dict[str, str], ...] = ()


def write_profile(directory: Path, profile: Profile) -> None:
    """Write the profile, durably."""
    content = asdict(profile)
    if not profile.warnings:
        del content["warnings"]
    write_file(directory / _NAME, [pack(content, VERSION if profile.warnings else _PLAIN_VERSION)])


def read_profile(directory: Path) -> Profile | None:
    """Read the profile of a dataset; None if an old dataset has no profile, or the file cannot be read."""
    try:
        content = unpack((directory / _NAME).read_bytes(), VERSION, "profile", "", _PLAIN_VERSION)
    except (OSError, StorageError):
        return None
    fields: dict[str, Any] = {**content, "lengths": tuple(content["lengths"])}
    fields["warnings"] = tuple(content.get("warnings", ()))
    for name in _PAIRS:
        fields[name] = tuple(map(tuple, content.get(name, ())))
    return Profile(**fields)
