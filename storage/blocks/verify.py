"""Reads every byte of a dataset and says what is not as it was written."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.blocks.feature_words import check_words
from streamsvm.storage.errors import DatasetCorrupt, StorageError


def faults(directory: Path) -> Iterator[StorageError]:
    """What is wrong with the dataset in `directory`: no more than one fault a block; nothing if it is sound.

    Blocks that are on other machines are not looked at.
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
    """Files of blocks that are none of the dataset's."""
    manifest = Dataset(directory).manifest
    if manifest.parts:
        return []
    listed = {block_path(directory, block.number) for block in manifest.blocks}
    return sorted(set((directory / "blocks").iterdir()) - listed)


def _read(dataset: Dataset, number: int) -> None:
    info, rows, nnz = dataset.manifest.blocks[number], 0, 0
    for location in dataset.pieces(number):
        piece = dataset.piece(location)
        rows += len(piece)
        nnz += piece.rows.nnz
    if (rows, nnz) != (info.rows, info.nnz):
        raise DatasetCorrupt(f"{rows} rows and {nnz} non-zeros where the manifest has others", info.number)
