"""A dataset on disk: a directory of blocks and the manifest that counts and checks them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage.block import BlockInfo, BlockReader
from storage.document import pack, unpack
from storage.durable import publish, write_file
from storage.errors import CorruptData
from storage.segment import packed_bytes

VERSION = 2
MANIFEST = "manifest.json"
_READ_AHEAD_BYTES = 1 << 20
_ADD_AGAIN = "The dataset was damaged on disk: add it again."


@dataclass(frozen=True)
class Manifest:
    """What a dataset holds.

    uid           names these very bytes: block headers repeat it
    index_base    0 or 1: the number of the first feature in the input, and in the blocks
    n_features    features of a model trained on it: the largest index + 1 - index_base
    labels        label value -> number of rows
    longest_row   most non-zeros in a row
    counters      what the parser accepted but counted: blank lines, explicit zeros ...
    """

    uid: str
    index_base: int
    n_features: int
    n_rows: int
    nnz: int
    labels: dict[float, int]
    longest_row: int
    input_bytes: int
    counters: dict[str, int]
    blocks: tuple[BlockInfo, ...]

    @property
    def decoded_bytes(self) -> int:
        """Size of all rows as the cache would hold them: what `cache_bytes` is to be compared with."""
        return packed_bytes(self.n_rows, self.nnz)

    @property
    def stored_bytes(self) -> int:
        """Size of all blocks on disk."""
        return sum(block.bytes for block in self.blocks)

    @property
    def width(self) -> int:
        """Length of a weight vector indexed as the rows are: an unused place 0 if the input counts from 1."""
        return self.n_features + self.index_base


class Dataset:
    """A published dataset, read-only."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = read_manifest(directory)

    def will_need(self, number: int) -> None:
        """Let the kernel fetch the start of a block, all of a small one, while something else is done."""
        # What is wrong with the file is said when it is opened for reading.
        with suppress(FileNotFoundError), block_path(self.directory, number).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, _READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)

    @contextmanager
    def open_block(self, number: int) -> Iterator[BlockReader]:
        """The block's pieces; its file pages are given back to the kernel afterwards.

        Raises CorruptData naming the block.
        """
        path = block_path(self.directory, number)
        try:
            with path.open("rb", buffering=0) as file:
                try:
                    yield BlockReader(file, self.manifest.blocks[number])
                finally:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except CorruptData as error:
            raise CorruptData(f"block {number}: {error.message}", _ADD_AGAIN) from error
        except FileNotFoundError as error:
            raise CorruptData(f"block {number}: the file is missing", _ADD_AGAIN) from error


def block_path(directory: Path, number: int) -> Path:
    """Where a dataset keeps a block."""
    return directory / "blocks" / f"{number:06d}.blk"


def staged_path(final: Path) -> Path:
    """Where a dataset is put together before it is published as `final`."""
    return final.with_name(f".{final.name}.staged")


def publish_dataset(staged: Path, final: Path, manifest: Manifest) -> None:
    """Complete a staged directory of blocks with its manifest and give it its final name, durably."""
    write_file(staged / MANIFEST, [pack(_content(manifest), VERSION)])
    publish(staged, final)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a dataset, checked."""
    try:
        content = unpack((directory / MANIFEST).read_bytes(), VERSION, "manifest", _ADD_AGAIN)
    except FileNotFoundError as error:
        raise CorruptData("the manifest is missing", _ADD_AGAIN) from error
    content["labels"] = {float(value): rows for value, rows in content["labels"]}
    content["blocks"] = tuple(BlockInfo(**block) for block in content["blocks"])
    return Manifest(**content)


def _content(manifest: Manifest) -> dict[str, Any]:
    # JSON keys are text; pairs keep a label the number it is.
    return {**asdict(manifest), "labels": list(manifest.labels.items())}
