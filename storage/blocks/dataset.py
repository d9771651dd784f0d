"""A dataset on disk: a directory of blocks with a manifest.

A dataset that is still being read in is staged: pieces can be read as soon as they are there. The process that stages
it appends a record to `<staged>/journal` for each piece that its block holds, in the order of row ids. The journal is
deleted when the dataset is complete: the indices of the blocks then say the same.
"""

import itertools
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from streamsvm.storage.blocks.block import LOCATION, Piece, decode_piece, locations, read_index
from streamsvm.storage.blocks.feature_files import check_words, read_listed, read_places
from streamsvm.storage.blocks.manifest import Manifest, read_manifest, write_manifest
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt, DatasetLost, StorageError
from streamsvm.storage.files import codec
from streamsvm.storage.files.direct import FileRange, Pages, read_range
from streamsvm.storage.files.durable import publish
from streamsvm.storage.machine.resources import PageBudget
from streamsvm.storage.rows.csr import INDEX, LABEL, Array
from streamsvm.storage.rows.row_runs import RUN, one_run, runs_of

# Files that versions before 0.3 left beside the blocks: rows that a job had decoded.
OF_EARLIER_VERSIONS = ("rows.kept", "rows.index", "rows.released")


class Dataset:
    """A published dataset, read-only. Methods take as a block's `number` its index in manifest.blocks.

    Rows have the ids 0 to n_rows - 1 in the order in which they were added. Removing a block lowers the ids of later
    rows, and keeps their order. The ids with which rows were written never change, see `storage.rows.row_runs`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = read_manifest(directory)

    def in_input_order(self, w: Array) -> Array:
        """Reorder w (width,) from the blocks' feature numbers to those of the input. Raises DatasetCorrupt.

        With listed features (see `listed`), the result has only the blocks' features, ordered by their input numbers.
        """
        if not self.has_own_order:
            return w
        ordered = np.empty_like(w)
        ordered[self.columns] = w
        return ordered

    def in_own_order(self, w: Array) -> Array:
        """Reorder w (width,) from `in_input_order` back to the blocks' feature numbers. Raises DatasetCorrupt."""
        return w[self.columns] if self.has_own_order else w

    @property
    def has_own_order(self) -> bool:
        """Whether the blocks number features otherwise than the input."""
        return bool(self.manifest.renumbered or self.manifest.listed)

    @cached_property
    def columns(self) -> Array:
        """(width,): the index of each feature of the blocks in a w of `in_input_order`. Raises DatasetCorrupt."""
        if not self.manifest.listed:
            return self.numbers
        columns = np.empty(self.manifest.width, INDEX)
        columns[np.argsort(self.numbers)] = np.arange(len(columns), dtype=INDEX)
        return columns

    @cached_property
    def numbers(self) -> Array:
        """(width,) int32: the number that each feature of the blocks has in the input. Raises DatasetCorrupt."""
        numbers = np.arange(self.manifest.width, dtype=INDEX)
        if self.manifest.renumbered:
            numbers[self.places()] = np.arange(self.manifest.renumbered, dtype=INDEX)
        if self.manifest.listed:
            numbers[-self.manifest.listed :] = self.listed()
        return numbers

    def places(self) -> Array:
        """Read places (renumbered,): feature f of the input is feature places[f] of the blocks. Raises DatasetCorrupt.

        A feature >= renumbered has the same number in input and blocks, unless it is listed.
        """
        return read_places(self.directory, self.manifest.renumbered, self.manifest.places_checksum)

    def listed(self) -> Array:
        """Read the numbers (listed,) in the input of the blocks' last features. Raises DatasetCorrupt."""
        return read_listed(self.directory, self.manifest.listed)

    def pieces(self, number: int) -> Array:
        """Return the LOCATIONs (n_pieces,) of a block's pieces. Raises DatasetCorrupt, which names the block."""
        pieces = self._written_pieces(number)
        if self.manifest.has_gaps:
            written, now = self._first_rows
            pieces["first_row"] = now[np.searchsorted(written, pieces["first_row"])]
        return pieces

    def all_pieces(self, in_row_order: bool = False) -> Array:
        """Return the LOCATIONs of all pieces, by block or in the order of their rows' ids. Raises DatasetCorrupt."""
        pieces = np.concatenate([self.pieces(number) for number in range(len(self.manifest.blocks))])
        return np.sort(pieces, order="first_row") if in_row_order else pieces

    def row_runs(self) -> Array:
        """Return the runs of the rows' written ids, see `storage.rows.row_runs`. Raises DatasetCorrupt."""
        n_rows = self.manifest.n_rows
        if not self.manifest.has_gaps:
            return one_run(n_rows)
        written, now = self._first_rows
        return runs_of(written.astype(RUN), np.diff(now, append=n_rows))

    @cached_property
    def _first_rows(self) -> tuple[Array, Array]:
        """For the first row of every piece: the written ids, ascending, and the present ids, (n_pieces,) each."""
        pieces = np.concatenate(
            [self._written_pieces(k)[["first_row", "rows"]] for k in range(len(self.manifest.blocks))]
        )
        pieces.sort(order="first_row")
        return pieces["first_row"], np.cumsum(pieces["rows"], dtype=np.int64) - pieces["rows"]

    def _written_pieces(self, number: int) -> Array:
        path = self._path(number)
        with _naming(path), path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            try:
                return locations(number, read_index(file, self.manifest.blocks[number]))
            finally:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _path(self, number: int) -> Path:
        return block_path(self.directory, self.manifest.blocks[number].number)

    def labels(self) -> Iterator[Array]:
        """Yield the labels of all rows by their ids, piece by piece. Raises DatasetCorrupt.

        Little more than the labels is read and decoded, and not compared with checksums.
        """
        for location in self.all_pieces(in_row_order=True):
            path, begin = self._path(int(location["block"])), int(location["offset"])
            most = min(int(location["bytes"]), 2 * LABEL.itemsize * int(location["rows"]) + 64)
            with _naming(path), read_range(path, begin, most, Pages.KEPT) as start:
                yield codec.decode_first(start, LABEL, int(location["rows"]))

    def label_weights(self) -> dict[float, float]:
        """Return label -> sum of the weights of its rows, after a pass over all rows. Raises DatasetCorrupt."""
        totals: dict[float, float] = {}
        for location in self.all_pieces():
            rows = self.piece(location).rows
            labels, places = np.unique(rows.label, return_inverse=True)
            sums = np.bincount(places, rows.weight, len(labels))
            for label, total in zip(labels.tolist(), sums.tolist(), strict=True):
                totals[label] = totals.get(label, 0.0) + total
        return totals

    def fetch(self, location: Array, pages: Pages = Pages.PASSED) -> FileRange:
        """Read the bytes of the piece at a LOCATION. Raises DatasetCorrupt, which names the block."""
        path = self._path(int(location["block"]))
        with _naming(path):
            return read_range(path, int(location["offset"]), int(location["bytes"]), pages)

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode the fetched bytes of a piece. Raises DatasetCorrupt, which names the block."""
        with _naming(self._path(int(location["block"]))), fetched as data:
            return decode_piece(data, location)

    def piece(self, location: Array) -> Piece:
        """Read, check and decode the piece at a LOCATION. Raises DatasetCorrupt, which names the block."""
        return self.decode(location, self.fetch(location))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Raise a DatasetCorrupt that names the block in place of CorruptData and read errors of the block's file."""
    number = int(path.stem)
    try:
        yield
    except CorruptData as error:
        raise DatasetCorrupt(error.message, number) from error
    except FileNotFoundError as error:
        raise DatasetCorrupt("the file is missing", number) from error
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        raise DatasetCorrupt("the disk cannot read the file", number) from error


def block_path(directory: Path, number: int) -> Path:
    """Return the path of a block's file; `number` is `BlockInfo.number`, not an index in the manifest."""
    return directory / "blocks" / f"{number:06d}.blk"


def staged_path(final: Path) -> Path:
    """Return the directory in which a dataset is written before it is published as `final`."""
    return final.with_name(f".{final.name}.staged")


def publish_dataset(staged: Path, final: Path, manifest: Manifest) -> None:
    """Write the manifest into the directory `staged` of blocks, and rename the directory to `final`, durably."""
    write_manifest(staged, manifest)
    publish(staged, final)


def faults(directory: Path) -> Iterator[StorageError]:
    """Check all bytes of the dataset in `directory`; yield its faults, at most one per block.

    Blocks on other machines are not checked.
    """
    try:
        dataset = Dataset(directory)
    except StorageError as error:
        yield error
        return
    here = 0 if dataset.manifest.parts else len(dataset.manifest.blocks)
    checks: list[Callable[[], object]] = [partial(_read, dataset, number) for number in range(here)]
    if dataset.manifest.renumbered:
        checks.append(dataset.places)
    if dataset.manifest.listed:
        checks.append(dataset.listed)
    checks.append(partial(check_words, directory))
    for check in checks:
        try:
            check()
        except StorageError as error:
            yield error


def strays(directory: Path) -> list[Path]:
    """Return the files in the directory of blocks that the manifest does not name; none for a dataset in parts."""
    manifest = Dataset(directory).manifest
    if manifest.parts:
        return []
    named = {block_path(directory, block.number) for block in manifest.blocks}
    return sorted(set((directory / "blocks").iterdir()) - named)


def _read(dataset: Dataset, number: int) -> None:
    info, rows, nnz = dataset.manifest.blocks[number], 0, 0
    for location in dataset.pieces(number):
        piece = dataset.piece(location)
        rows += len(piece)
        nnz += piece.rows.nnz
    if (rows, nnz) != (info.rows, info.nnz):
        stated = f"the manifest says {info.rows} and {info.nnz}"
        raise DatasetCorrupt(f"it has {rows} rows and {nnz} non-zeros, {stated}", info.number)


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
