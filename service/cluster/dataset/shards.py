"""A dataset's blocks divided among machines. A shard is a dataset that has only some of the blocks."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.renumber import numbering_of
from streamsvm.reader.ingest.shared_schema import SharedSchema, input_of_shards
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.fetch import STRIPE_BYTES, Share
from streamsvm.reader.sources.files import SourceFile
from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.blocks.manifest import MANIFEST, BlockInfo, Manifest
from streamsvm.storage.files.durable import pack, unpack, write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import runs_of

_NAME, _VERSION = "origin.json", 1
_LEAST_STRIPE_BYTES = 1 << 20
_STRIPES = 8  # least stripes for each machine, where files are large enough


@dataclass(frozen=True)
class Origin:
    """The source of a dataset: its files, the options for reading them, and the number of machines that read them."""

    files: tuple[SourceFile, ...]
    options: InputOptions
    limits: InputLimits
    machines: int
    stripe_bytes: int
    settled: SharedSchema

    def shard(self, number: int) -> SourceInput:
        """Return the ranges of the files that machine `number` reads."""
        return SourceInput(self.files, self.limits, Share(number, self.machines, self.stripe_bytes))

    @property
    def names(self) -> list[str]:
        """Names of the shards."""
        return shard_names(self.settled.uid, self.machines)


def shard_names(uid: str, machines: int) -> list[str]:
    """Return the names of the shards of a dataset that `machines` machines have read in."""
    return [f"{uid}-part{number}of{machines}" for number in range(machines)]


def stripe_bytes_for(files: Sequence[SourceFile], machines: int) -> int:
    """Return the bytes of a stripe: large, but small enough that every machine gets several stripes."""
    each = sum(file.size for file in files) // (_STRIPES * machines)
    return min(max(each, _LEAST_STRIPE_BYTES), STRIPE_BYTES)


def write_origin(directory: Path, origin: Origin) -> None:
    """Write the origin durably beside the manifest, without `settled`: the dataset's own files hold that."""
    content = vars(origin) | {name: asdict(getattr(origin, name)) for name in ("options", "limits")}
    content["files"] = [asdict(file) for file in content["files"]]
    del content["settled"]
    write_file(directory / _NAME, [pack(content, _VERSION)])


def read_origin(directory: Path) -> Origin:
    """Read the origin of the dataset in this directory. Raises CorruptData, DatasetCorrupt, FileNotFoundError."""
    content = unpack((directory / _NAME).read_bytes(), _VERSION, "origin", "Read the dataset in again.")
    files, machines, stripe_bytes = (content[name] for name in ("files", "machines", "stripe_bytes"))
    options, limits = InputOptions(**content["options"]), InputLimits(**content["limits"])
    dataset = Dataset(directory)
    manifest, numbering = dataset.manifest, numbering_of(dataset)
    settled = SharedSchema(manifest.uid, manifest.label_names, input_of_shards(manifest.input), numbering)
    return Origin(tuple(SourceFile(**file) for file in files), options, limits, machines, stripe_bytes, settled)


_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Shard:
    """The part of a dataset that one machine has.

    name  differs from the names of all other shards, of this and other datasets
    rows  runs of the ids that the shard's rows have in the dataset, see storage.rows.row_runs
    """

    name: str
    manifest: Manifest
    rows: Array


def shards_of(manifest: Manifest, machines: int) -> list[Shard]:
    """Return the shards of a dataset for `machines` machines. Raises ServiceError machines_range."""
    if not manifest.parts:
        return deal(manifest, machines)
    count = len(manifest.parts)
    if machines != count:
        raise ServiceError(
            "machines_range",
            f"the dataset is spread over {count} machines, and is trained on them",
            f"Ask for {count} machines.",
        )
    manifests = [shard_manifest(manifest, k) for k in range(count)]
    begins = np.cumsum([0, *(each.n_rows for each in manifests)])
    return [
        Shard(name, own, runs_of(begins[k : k + 1], np.array([own.n_rows])))
        for k, (name, own) in enumerate(zip(shard_names(manifest.uid, count), manifests, strict=True))
    ]


def check_here(manifest: Manifest) -> None:
    """Raise ServiceError dataset_spread if the blocks of a dataset are on other machines."""
    if manifest.parts:
        count = len(manifest.parts)
        raise ServiceError(
            "dataset_spread",
            f"the rows of the dataset are on {count} machines, not here",
            f"Train on them: machines {count}. For all else import the data here, without machines.",
        )


def shard_manifest(manifest: Manifest, number: int) -> Manifest:
    """Return the manifest of shard `number` of a dataset that machines have read in."""
    first = sum(manifest.parts[:number])
    return _with_blocks(manifest, manifest.blocks[first : first + manifest.parts[number]])


def deal(manifest: Manifest, machines: int) -> list[Shard]:
    """Divide blocks, the largest first, each to the machine with fewest values. Raises ServiceError machines_range."""
    if machines > len(manifest.blocks):
        raise ServiceError(
            "machines_range",
            f"the dataset has {len(manifest.blocks)} blocks, too few for {machines} machines",
            "Ask for fewer machines.",
        )
    dealt: list[list[BlockInfo]] = [[] for _ in range(machines)]
    for block in sorted(manifest.blocks, key=lambda block: (-block.nnz, block.number)):
        min(dealt, key=lambda blocks: sum(each.nnz for each in blocks)).append(block)
    by_number = attrgetter("number")
    return [_shard(manifest, sorted(blocks, key=by_number), k, machines) for k, blocks in enumerate(dealt)]


def _shard(manifest: Manifest, blocks: Sequence[BlockInfo], number: int, of: int) -> Shard:
    # A dataset keeps its uid when rows are added: the hash of the blocks distinguishes its versions.
    blocks_hash = zlib.crc32(repr([(block.number, block.checksum) for block in blocks]).encode())
    ends = np.cumsum([block.rows for block in manifest.blocks])
    begins = {block.number: int(end) - block.rows for block, end in zip(manifest.blocks, ends, strict=True)}
    rows = runs_of(np.array([begins[block.number] for block in blocks]), np.array([block.rows for block in blocks]))
    return Shard(f"{manifest.uid}-{number}of{of}-{blocks_hash:08x}", _with_blocks(manifest, blocks), rows)


def _with_blocks(manifest: Manifest, blocks: Sequence[BlockInfo]) -> Manifest:
    rows, nnz = sum(block.rows for block in blocks), sum(block.nnz for block in blocks)
    return replace(manifest, blocks=tuple(blocks), n_rows=rows, nnz=nnz)


def pieces_of(directory: Path, shard: Shard) -> Iterator[tuple[str, bytes, bool]]:
    """Yield the files of a shard, without its manifest, as `Agent.receive` takes them, from the dataset's directory."""
    beside = [path for path in directory.iterdir() if path.is_file() and path.name != MANIFEST]
    for path in sorted(beside) + [block_path(directory, block.number) for block in shard.manifest.blocks]:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield str(path.relative_to(directory)), piece, file.tell() == len(piece)
