"""Rows of a dataset kept from job to job, decoded and ready for training: a file of segments beside the blocks.

It is worth a pass of the reader, and no more: whoever needs the disk takes it away. A file that is not what was written
is found out by the checksums of its index, and counts as none.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.spill_file import SpillFile

FILE, INDEX, RELEASED = "rows.kept", "rows.index", "rows.released"  # the last: of rows that others needed to go
VERSION, _PLAIN_VERSION = 2, 1  # plain: all segments are of one size

Key = dict[str, Any]  # of which dataset, and as which problem, they are


def keep(file: SpillFile, directory: Path, key: Key, n_rows: int) -> None:
    """From now on the file has a name in the directory of its dataset. Raises OSError."""
    release(directory)
    file.link(directory / FILE)
    content = {"key": key, "n_rows": n_rows, "segment_bytes": file.segment_bytes, "sums": file.sums}
    longer = [[number, size] for number, size in enumerate(file.sizes) if size != file.segment_bytes]
    packed = pack({**content, "longer": longer}, VERSION) if longer else pack(content, _PLAIN_VERSION)
    write_file(directory / INDEX, [packed])


def _index(path: Path, key: Key) -> dict[str, Any] | None:
    """Read the index of kept rows; None if they are kept under another key. Raises OSError, StorageError."""
    index = unpack(path.read_bytes(), VERSION, "index of kept rows", "", _PLAIN_VERSION)
    return index if index["key"] == key else None


def find(directory: Path, key: Key) -> tuple[SpillFile, int] | None:
    """The file that was kept under this key, and how many rows it has; None if there is none."""
    try:
        index = _index(directory / INDEX, key)
        if index is None:
            return None
        segment_bytes, sums = index["segment_bytes"], index["sums"]
        sizes = [segment_bytes] * len(sums)
        for number, size in index.get("longer", ()):
            sizes[number] = size
        return SpillFile.kept(directory / FILE, segment_bytes, sums, sizes), index["n_rows"]
    except (OSError, StorageError):
        return None


def release(directory: Path) -> None:
    """Nothing is kept of this dataset any more; a job that reads it goes on."""
    for name in (INDEX, RELEASED, FILE):
        (directory / name).unlink(missing_ok=True)


def were_released(directory: Path, key: Key) -> bool:
    """Whether there were rows under this key that `release_when_short` has given up; said once."""
    try:
        is_so = _index(directory / RELEASED, key) is not None
        if is_so:
            (directory / RELEASED).unlink()
    except (OSError, StorageError):
        return False
    return is_so


def release_when_short(datasets: Path, free: int) -> bool:
    """Give the disk back, all of it, if there is less free than is kept; whether that was so."""
    kept = list(datasets.glob(f"*/{FILE}"))
    taken = 0
    for path in kept:
        with suppress(OSError):
            taken += path.stat().st_size
    if taken <= free:
        return False
    for path in kept:
        with suppress(OSError):
            (path.parent / INDEX).replace(path.parent / RELEASED)  # a new name takes no space
        with suppress(OSError):
            path.unlink()
    return True
