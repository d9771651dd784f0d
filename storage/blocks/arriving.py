"""A dataset that is still being read in: its pieces can be read as soon as they are written whole.

Whoever stages it appends a record to `<staged>/journal` for each piece whose bytes are in its block, in the order of
row ids. The journal goes when the dataset is complete: the blocks' own indices then say the same.
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
from streamsvm.storage.files.direct import Part, read_part
from streamsvm.storage.rows.csr import Array

JOURNAL = "journal"

RECORD = np.dtype([("location", LOCATION), ("record_checksum", "<u4")])


class Journal:
    """Announces pieces to those who follow."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / JOURNAL
        self._path.touch(exist_ok=False)

    def announce(self, block: int, entry: Array) -> None:
        """The piece with this INDEX_ENTRY can be read. Pieces are to be announced in the order of row ids."""
        record = np.zeros((), RECORD)
        record["location"] = locations(block, entry.reshape(1))[0]
        record["record_checksum"] = zlib.crc32(record["location"].tobytes())
        with self._path.open("ab", buffering=0) as file:
            file.write(record.tobytes())

    def remove(self) -> None:
        """The end of it; followers who have it open can still read it."""
        self._path.unlink(missing_ok=True)


class ArrivingDataset:
    """Follows the dataset staged at `staged`, to be published as `final`. Neither need be there yet."""

    def __init__(self, staged: Path, final: Path) -> None:
        self._staged = staged
        self._final = final
        self._journal: BinaryIO | None = None
        self._rest = b""  # of a record that is being written
        self.is_complete = False  # published, and all its pieces have been given out

    @property
    def has_failed(self) -> bool:
        """Whether what was being staged is gone. One that was never seen here cannot be missed."""
        # In this order: a dataset that is renamed in between is not taken for a lost one.
        return self._journal is not None and not self._staged.exists() and not self._final.exists()

    def new_pieces(self) -> list[Array]:
        """The pieces, (LOCATION), that can be read and were not given out before, in the order of row ids."""
        if self.is_complete:
            return []
        # Looked at before the journal is: what is published has been announced.
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

    def fetch(self, location: Array) -> Part:
        """Read the bytes of a piece. Raises DatasetLost when the dataset is gone."""
        # The staged file first: it cannot come back once it has moved.
        for directory in (self._staged, self._final):
            path = block_path(directory, int(location["block"]))
            with suppress(FileNotFoundError):
                return read_part(path, int(location["offset"]), int(location["bytes"]), is_cached=True)
        raise DatasetLost(f"block {location['block']} is missing: the dataset was given up while it was being read in")

    @staticmethod
    def decode(location: Array, fetched: Part) -> Piece:
        """Check and decode the bytes of a piece. Raises CorruptData."""
        with fetched as data:
            return decode_piece(data, location)

    def piece(self, location: Array) -> Piece:
        """Read, check and decode a piece."""
        return self.decode(location, self.fetch(location))

    def close(self) -> None:
        """Give the journal up; pieces given out can still be read."""
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
    """What the journal of a complete dataset held, (LOCATION)."""
    found = [dataset.pieces(number) for number in range(len(dataset.manifest.blocks))]
    return list(np.sort(np.concatenate(found), order="first_row"))
