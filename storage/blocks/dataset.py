"""A dataset on disk: a directory of blocks with a manifest."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from streamsvm.storage.blocks.block import BlockReader, Piece, decode_piece, locations
from streamsvm.storage.blocks.feature_numbers import read_listed, read_places
from streamsvm.storage.blocks.feature_words import check_words
from streamsvm.storage.blocks.manifest import Manifest, read_manifest, write_manifest
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt, StorageError
from streamsvm.storage.files.direct import FileRange, Pages, read_range
from streamsvm.storage.files.durable import publish
from streamsvm.storage.rows.csr import INDEX, Array
from streamsvm.storage.rows.row_runs import RUN, one_run, runs_of

# What versions before 0.3 left beside the blocks: rows that a job had decoded.
OF_EARLIER_VERSIONS = ("rows.kept", "rows.index", "rows.released")


class Dataset:
    """A published dataset, read-only. A block's number here is its place in the manifest.

    Rows have the ids 0 to n_rows - 1 in the order in which they were added. Removing a block lowers the ids of later
    rows, and keeps their order. The ids that rows were written with never change, see `row_runs`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = read_manifest(directory)

    def in_input_order(self, w: Array) -> Array:
        """w (width,), given by the blocks' feature numbers, by those of the input. Raises DatasetCorrupt.

        With listed features (see `listed`), all features come in the order of their numbers in the input.
        """
        if not self.has_own_order:
            return w
        ordered = np.empty_like(w)
        ordered[self.columns] = w
        return ordered

    def in_own_order(self, w: Array) -> Array:
        """The inverse of `in_input_order`: w (width,) by the blocks' feature numbers. Raises DatasetCorrupt."""
        return w[self.columns] if self.has_own_order else w

    @property
    def has_own_order(self) -> bool:
        """Whether the blocks have other feature numbers than the input."""
        return bool(self.manifest.renumbered or self.manifest.listed)

    @cached_property
    def columns(self) -> Array:
        """The place of each feature of the blocks in the order of the input, (width,). Raises DatasetCorrupt."""
        if not self.manifest.listed:
            return self.numbers
        columns = np.empty(self.manifest.width, INDEX)
        columns[np.argsort(self.numbers)] = np.arange(len(columns), dtype=INDEX)
        return columns

    @cached_property
    def numbers(self) -> Array:
        """The number that each feature of the blocks has in the input, (width,) int32. Raises DatasetCorrupt."""
        numbers = np.arange(self.manifest.width, dtype=INDEX)
        if self.manifest.renumbered:
            numbers[self.places()] = np.arange(self.manifest.renumbered, dtype=INDEX)
        if self.manifest.listed:
            numbers[-self.manifest.listed :] = self.listed()
        return numbers

    def places(self) -> Array:
        """The number places[f], (renumbered,), that feature f of the input has in the blocks. Raises DatasetCorrupt.

        Features >= renumbered have the same number in both, unless they are listed.
        """
        return read_places(self.directory, self.manifest.renumbered, self.manifest.places_checksum)

    def listed(self) -> Array:
        """The input's numbers (listed,) of the last features of the blocks. Raises DatasetCorrupt."""
        return read_listed(self.directory, self.manifest.listed)

    def pieces(self, number: int) -> Array:
        """The LOCATIONs (n_pieces,) of a block's pieces. Raises DatasetCorrupt naming the block."""
        pieces = self._written_pieces(number)
        if self.manifest.has_gaps:
            written, now = self._first_rows
            pieces["first_row"] = now[np.searchsorted(written, pieces["first_row"])]
        return pieces

    def row_runs(self) -> Array:
        """The runs of its rows' written ids, see `storage.rows.row_runs`. Raises DatasetCorrupt."""
        n_rows = self.manifest.n_rows
        if not self.manifest.has_gaps:
            return one_run(n_rows)
        written, now = self._first_rows
        return runs_of(written.astype(RUN), np.diff(now, append=n_rows))

    @cached_property
    def _first_rows(self) -> tuple[Array, Array]:
        """The written id of every piece's first row, ascending, and its present id."""
        pieces = np.concatenate(
            [self._written_pieces(k)[["first_row", "rows"]] for k in range(len(self.manifest.blocks))]
        )
        pieces.sort(order="first_row")
        return pieces["first_row"], np.cumsum(pieces["rows"], dtype=np.int64) - pieces["rows"]

    def _written_pieces(self, number: int) -> Array:
        with self.open_block(number) as block:
            return locations(number, block.index)

    def _path(self, number: int) -> Path:
        return block_path(self.directory, self.manifest.blocks[number].number)

    def label_weights(self) -> dict[float, float]:
        """label of `Rows` -> the sum of the weights of its rows. Takes a pass over all rows. Raises DatasetCorrupt."""
        totals: dict[float, float] = {}
        for number in range(len(self.manifest.blocks)):
            for location in self.pieces(number):
                rows = self.piece(location).rows
                labels, places = np.unique(rows.label, return_inverse=True)
                sums = np.bincount(places, rows.weight, len(labels))
                for label, total in zip(labels.tolist(), sums.tolist(), strict=True):
                    totals[label] = totals.get(label, 0.0) + total
        return totals

    def fetch(self, location: Array, pages: Pages = Pages.PASSED) -> FileRange:
        """Read the bytes of a piece. Raises DatasetCorrupt naming the block."""
        path = self._path(int(location["block"]))
        with _naming(path):
            return read_range(path, int(location["offset"]), int(location["bytes"]), pages)

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode the bytes of a piece. Raises DatasetCorrupt naming the block."""
        with _naming(self._path(int(location["block"]))), fetched as data:
            return decode_piece(data, location)

    def piece(self, location: Array) -> Piece:
        """Read, check and decode a piece. Raises DatasetCorrupt naming the block."""
        return self.decode(location, self.fetch(location))

    @contextmanager
    def open_block(self, number: int) -> Iterator[BlockReader]:
        """A reader of the block; the page cache drops its file afterwards. Raises DatasetCorrupt naming the block."""
        path = self._path(number)
        with _naming(path), path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            try:
                yield BlockReader(file, self.manifest.blocks[number])
            finally:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors of a block's file into a DatasetCorrupt that names the block."""
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
    """The path of a block; `number` is the block's own (`BlockInfo.number`)."""
    return directory / "blocks" / f"{number:06d}.blk"


def staged_path(final: Path) -> Path:
    """The directory in which a dataset is written before it is published as `final`."""
    return final.with_name(f".{final.name}.staged")


def publish_dataset(staged: Path, final: Path, manifest: Manifest) -> None:
    """Write the manifest into the staged directory of blocks and give the directory its final name, durably."""
    write_manifest(staged, manifest)
    publish(staged, final)


def faults(directory: Path) -> Iterator[StorageError]:
    """Yields what is wrong with the dataset in `directory`, at most one fault a block; nothing if it is sound.

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
    """Files among the blocks that the manifest does not name."""
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
