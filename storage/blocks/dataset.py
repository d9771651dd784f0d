"""A dataset on disk: a directory of blocks with a manifest."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from streamsvm.storage.blocks.block import Piece, decode_piece, locations, read_index
from streamsvm.storage.blocks.feature_files import check_words, read_listed, read_places
from streamsvm.storage.blocks.manifest import Manifest, read_manifest, write_manifest
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt, StorageError
from streamsvm.storage.files import codec
from streamsvm.storage.files.direct import FileRange, Pages, read_range
from streamsvm.storage.files.durable import publish
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
