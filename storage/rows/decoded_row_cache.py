"""Decoded rows that a job leaves for the next one: a file of segments beside the blocks of its dataset, and its index.

The file saves one pass of the reader and nothing else depends on it: it is deleted whenever others need the disk. The
index has checksums of every segment; a file that does not match them counts as absent.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.spill_file import SpillFile

# RELEASED is the index of a file that was deleted since others needed the disk.
FILE, INDEX, RELEASED = "rows.kept", "rows.index", "rows.released"
# Plain: all segments are of one size. Segments of versions 1 and 2 had other columns.
VERSION, _PLAIN_VERSION = 4, 3


class DecodedRowCache(NamedTuple):
    """The decoded rows of one problem on the dataset in `directory`.

    key   says which dataset and which problem the rows belong to; JSON. Rows under another key count as absent
    """

    directory: Path
    key: dict[str, Any]

    def keep(self, file: SpillFile, n_rows: int) -> None:
        """Name the file, which holds all `n_rows` rows, and write its index. Raises OSError."""
        with _locked(self.directory, fcntl.LOCK_EX):
            self._keep(file, n_rows)

    def _keep(self, file: SpillFile, n_rows: int) -> None:
        release(self.directory)
        file.link(self.directory / FILE)
        content = {"key": self.key, "n_rows": n_rows, "segment_bytes": file.segment_bytes, "sums": file.sums}
        longer = [[number, size] for number, size in enumerate(file.sizes) if size != file.segment_bytes]
        packed = pack({**content, "longer": longer}, VERSION) if longer else pack(content, _PLAIN_VERSION)
        write_file(self.directory / INDEX, [packed])

    def find(self) -> tuple[SpillFile, int] | None:
        """Open the file that a job kept under this key: the file and its number of rows, or None."""
        try:
            with _locked(self.directory, fcntl.LOCK_SH):
                return self._find()
        except (OSError, StorageError):
            return None

    def _find(self) -> tuple[SpillFile, int] | None:
        index = self._index(INDEX)
        if index is None:
            return None
        segment_bytes, sums = index["segment_bytes"], index["sums"]
        sizes = [segment_bytes] * len(sums)
        for number, size in index.get("longer", ()):
            sizes[number] = size
        return SpillFile.reopen(self.directory / FILE, segment_bytes, sums, sizes), index["n_rows"]

    def take_release_notice(self) -> bool:
        """Whether `release_when_short` deleted rows under this key. Deletes the notice: a second call says False."""
        try:
            was_released = self._index(RELEASED) is not None
            if was_released:
                (self.directory / RELEASED).unlink()
        except (OSError, StorageError):
            return False
        return was_released

    def _index(self, name: str) -> dict[str, Any] | None:
        """Read an index; None if it has another key. Raises OSError, StorageError."""
        data = (self.directory / name).read_bytes()
        index = unpack(data, VERSION, "index of kept rows", "", _PLAIN_VERSION)
        return index if index["key"] == self.key else None


@contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    """Hold a lock on the directory: jobs that run at once may keep and look for rows of one dataset."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def release(directory: Path) -> None:
    """Delete the decoded rows of a dataset, under whatever key. A job that has them open can still read them."""
    for name in (INDEX, RELEASED, FILE):
        (directory / name).unlink(missing_ok=True)


def release_when_short(datasets: Path, free: int) -> bool:
    """Delete the decoded rows of all datasets if they take more than the `free` bytes of the disk; whether it did."""
    files = list(datasets.glob(f"*/{FILE}"))
    taken = 0
    for path in files:
        with suppress(OSError):
            taken += path.stat().st_size
    if taken <= free:
        return False
    for path in files:
        with suppress(OSError):
            (path.parent / INDEX).replace(path.parent / RELEASED)  # renaming takes no space on a full disk
        with suppress(OSError):
            path.unlink()
    return True
