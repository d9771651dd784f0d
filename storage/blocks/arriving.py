"""A dataset that is still being read in: a job can read each piece as soon as it is written.

The process that stages the dataset appends a record to `<staged>/journal` for each piece that its block holds, in the
order of row ids. The journal is deleted when the dataset is complete: the indices of the blocks then say the same.
"""

import itertools
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

JOURNAL = "journal"

RECORD = np.dtype([("location", LOCATION), ("record_checksum", "<u4")])


class Journal:
    """Announces pieces to jobs that follow the dataset."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / JOURNAL
        self._path.touch(exist_ok=False)

    def announce(self, block: int, entry: Array) -> None:
        """Announce the piece of this INDEX_ENTRY, which can be read. Pieces must come in the order of row ids."""
        record = np.zeros((), RECORD)
        record["location"] = locations(block, entry.reshape(1))[0]
        record["record_checksum"] = zlib.crc32(record["location"].tobytes())
        with self._path.open("ab", buffering=0) as file:
            file.write(record.tobytes())

    def remove(self) -> None:
        """Delete the journal; processes that have it open can still read it."""
        self._path.unlink(missing_ok=True)


class ArrivingDataset:
    """Follows the dataset that is staged at `staged` and will be published as `final`. Neither need exist yet.

    budget        how many bytes of the pieces the page cache is to hold after they were fetched; None: none of them
    is_complete   the dataset is published, and `new_pieces` has returned all of its pieces
    """

    def __init__(self, staged: Path, final: Path, budget: PageBudget | None = None) -> None:
        self._staged = staged
        self._final = final
        self._budget, self._fetched = budget, 0  # bytes
        self._journal: BinaryIO | None = None
        self._rest = b""  # of a record that is being written
        self.is_complete = False

    @property
    def has_failed(self) -> bool:
        """Whether the staged dataset, once seen, has gone without being published."""
        # In this order: a dataset that is renamed between the two tests does not count as gone.
        return self._journal is not None and not self._staged.exists() and not self._final.exists()

    def new_pieces(self) -> list[Array]:
        """The LOCATIONs of readable pieces that no call has returned yet, in the order of row ids.

        Raises CorruptData if the journal of a published dataset is damaged.
        """
        if self.is_complete:
            return []
        # Test this before reading the journal: all pieces of a published dataset have been announced.
        is_published = self._final.exists()
        if self._journal is None:
            self._open_journal()
        if self._journal is None:
            pieces = _pieces_of(Dataset(self._final)) if is_published else []
        else:
            pieces = self._read_journal(self._journal, is_published)
        if is_published:
            self.close()
            self.is_complete = True
        return pieces

    def fetch(self, location: Array) -> FileRange:
        """Read the bytes of a piece. Raises DatasetLost when the dataset is gone."""
        self._fetched += int(location["bytes"])
        pages = Pages.KEPT if self._budget and self._budget.holds(self._fetched) else Pages.DROPPED
        # The staged file first: a dataset moves from there to `final`, and never back.
        for directory in (self._staged, self._final):
            path = block_path(directory, int(location["block"]))
            with suppress(FileNotFoundError):
                return read_range(path, int(location["offset"]), int(location["bytes"]), pages)
        raise DatasetLost(f"block {location['block']} is missing: the dataset was given up while it was being read in")

    @staticmethod
    def decode(location: Array, fetched: FileRange) -> Piece:
        """Check and decode the bytes of a piece. Raises CorruptData."""
        with fetched as data:
            return decode_piece(data, location)

    def piece(self, location: Array) -> Piece:
        """Read, check and decode a piece."""
        return self.decode(location, self.fetch(location))

    def close(self) -> None:
        """Close the journal; pieces that were returned can still be read."""
        if self._journal is not None:
            self._journal.close()

    def _open_journal(self) -> None:
        try:
            self._journal = (self._staged / JOURNAL).open("rb", buffering=0)
        except FileNotFoundError:
            return

    def _read_journal(self, journal: BinaryIO, is_published: bool) -> list[Array]:
        data = self._rest + journal.read()
        records = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)
        intact = list(itertools.takewhile(_is_intact, records))
        self._rest = data[len(intact) * RECORD.itemsize :]
        if is_published and self._rest:
            raise CorruptData("the journal of the arriving dataset is damaged")
        return [record["location"] for record in intact]


def _is_intact(record: Array) -> bool:
    return bool(zlib.crc32(record["location"].tobytes()) == record["record_checksum"])


def _pieces_of(dataset: Dataset) -> list[Array]:
    """The LOCATIONs of all pieces of a complete dataset, in the order of row ids."""
    pieces = [dataset.pieces(number) for number in range(len(dataset.manifest.blocks))]
    return list(np.sort(np.concatenate(pieces), order="first_row"))
