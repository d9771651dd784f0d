"""Checks a dataset: reads every byte and reports what differs from what was written."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.blocks.feature_words import check_words
from streamsvm.storage.errors import DatasetCorrupt, StorageError


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
