"""A dataset that is still being read in: how far it has come, and pieces that a job can read as soon as they are there.

The process that stages the dataset appends a record to `<staged>/journal` for each piece that its block holds, in the
order of row ids. The journal is deleted when the dataset is complete: the indices of the blocks then say the same.
"""

import itertools
import json
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from streamsvm.storage.blocks.block import LOCATION, Piece, decode_piece, locations
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.errors import CorruptData, DatasetLost
from streamsvm.storage.files.direct import FileRange, Pages, read_range
from streamsvm.storage.machine.resources import PageBudget
from streamsvm.storage.rows.csr import Array

JOURNAL, PROGRESS = "journal", "progress"
_PROGRESS_SECONDS = 0.5

RECORD = np.dtype([("location", LOCATION), ("record_checksum", "<u4")])


class Journal:
    """Announces written pieces to the jobs that read the dataset while it is being imported."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / JOURNAL
        self._path.touch(exist_ok=False)

    def announce(self, block: int, entry: Array) -> None:
        """Announce that a written piece can be read. entry: its INDEX_ENTRY. Call it in the order of row ids."""
        record = np.zeros((), RECORD)
        record["location"] = locations(block, entry.reshape(1))[0]
        record["record_checksum"] = zlib.crc32(record["location"].tobytes())
        with self._path.open("ab", buffering=0) as file:
            file.write(record.tobytes())

    def remove(self) -> None:
        """Delete the journal; processes that have opened it can still read it."""
        self._path.unlink(missing_ok=True)


class IngestProgress:
    """The writer of the progress file. Call `note` after each batch of rows, and `remove` at the end."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / PROGRESS
        self._due = 0.0

    def note(self, read_bytes: int, rows: int, non_zeros: int, total_bytes: int | None) -> None:
        """Write the counts so far, at most every half second. total_bytes: size of the input; None if unknown."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _PROGRESS_SECONDS
        beside = self._path.with_suffix(".new")
        counts = {"read_bytes": read_bytes, "rows": rows, "non_zeros": non_zeros}
        if total_bytes is not None:
            counts["total_bytes"] = total_bytes
        beside.write_text(json.dumps(counts))
        beside.rename(self._path)

    def remove(self) -> None:
        """Delete the progress file, once the whole input has been read."""
        self._path.unlink(missing_ok=True)


def read_progress(staged: Path) -> dict[str, int] | None:
    """Return read_bytes, rows, non_zeros and, if known, total_bytes of the ingest in `staged`; None without a file."""
    try:
        return json.loads((staged / PROGRESS).read_bytes())
    except FileNotFoundError:
        return None


class ArrivingDataset:
    """A dataset that is being imported at `staged` and will be published as `final`. Neither directory need exist yet.

    budget        decides which fetched pieces the page cache keeps, see `PageBudget`; None: it keeps no piece
    is_complete   the dataset has been published, and `new_pieces` has returned all of its pieces
    """

    def __init__(self, staged: Path, final: Path, budget: PageBudget | None = None) -> None:
        self._staged = staged
        self._final = final
        self._budget, self._fetched = budget, 0  # _fetched: bytes fetched so far
        self._journal: BinaryIO | None = None
        self._rest = b""  # the first bytes of a record that is being written
        self.is_complete = False

    @property
    def has_failed(self) -> bool:
        """Whether the staged dataset was seen once, and has disappeared without being published."""
        # Test `staged` before `final`: a dataset that is renamed between the two tests then does not count as failed.
        return self._journal is not None and not self._staged.exists() and not self._final.exists()

    def new_pieces(self) -> list[Array]:
        """Return the LOCATIONs of readable pieces that no earlier call has returned, in the order of row ids.

        Raises CorruptData if the journal of a published dataset is damaged.
        """
        if self.is_complete:
            return []
        # Test for `final` before reading the journal: all pieces of a published dataset have been announced.
        is_published = self._final.exists()
        if self._journal is None:
            with suppress(FileNotFoundError):
                self._journal = (self._staged / JOURNAL).open("rb", buffering=0)
        if self._journal is None:
            pieces = list(Dataset(self._final).all_pieces(in_row_order=True)) if is_published else []
        else:
            pieces = self._read_journal(self._journal, is_published)
        if is_published:
            self.close()
            self.is_complete = True
        return pieces

    def fetch(self, location: Array) -> FileRange:
        """Read the bytes of the piece at a LOCATION. Raises DatasetLost if the dataset has been deleted."""
        self._fetched += int(location["bytes"])
        pages = Pages.KEPT if self._budget and self._budget.holds(self._fetched) else Pages.DROPPED
        # Try the staged file first: a dataset moves from `staged` to `final`, and never back.
        for directory in (self._staged, self._final):
            path = block_path(directory, int(location["block"]))
            with suppress(FileNotFoundError):
                return read_range(path, int(location["offset"]), int(location["bytes"]), pages)
        raise DatasetLost(f"block {location['block']} is missing: the dataset was given up while it was being read in")

    @staticmethod
    def decode(location: Array, fetched: FileRange) -> Piece:
        """Check and decode the fetched bytes of a piece. Raises CorruptData if they are damaged."""
        with fetched as data:
            return decode_piece(data, location)

    def piece(self, location: Array) -> Piece:
        """Read, check and decode the piece at a LOCATION. Raises DatasetLost, CorruptData."""
        return self.decode(location, self.fetch(location))

    def close(self) -> None:
        """Close the journal; pieces that `new_pieces` has returned can still be read."""
        if self._journal is not None:
            self._journal.close()

    def _read_journal(self, journal: BinaryIO, is_published: bool) -> list[Array]:
        data = self._rest + journal.read()
        records = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)
        is_intact = (zlib.crc32(each["location"].tobytes()) == each["record_checksum"] for each in records)
        intact = records[: sum(1 for _ in itertools.takewhile(bool, is_intact))]
        self._rest = data[len(intact) * RECORD.itemsize :]
        if is_published and self._rest:
            raise CorruptData("the journal of the arriving dataset is damaged")
        return [record["location"] for record in intact]
