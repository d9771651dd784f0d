"""The source of a dataset that is spread over machines: enough to read one of its shards in again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from streamsvm.reader.ingest.numbering.renumber import numbering_of
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.shared_schema import SharedSchema, input_of_shards
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.stripes import STRIPE_BYTES, Share
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file

_NAME, _VERSION = "origin.json", 1
_LEAST_STRIPE_BYTES = 1 << 20
_STRIPES = 8  # at least that many for each machine, where files are large enough


@dataclass(frozen=True)
class Origin:
    """Files, how they are read, and among how many machines they are dealt out."""

    files: tuple[SourceFile, ...]
    options: InputOptions
    limits: Limits
    machines: int
    stripe_bytes: int
    settled: SharedSchema

    def shard(self, number: int) -> SourceInput:
        """The ranges of the files that a machine reads."""
        return SourceInput(self.files, self.limits, Share(number, self.machines, self.stripe_bytes))

    @property
    def names(self) -> list[str]:
        """Names of the shards."""
        return shard_names(self.settled.uid, self.machines)


def shard_names(uid: str, machines: int) -> list[str]:
    """Names of the shards of a dataset that was read in so."""
    return [f"{uid}-part{number}of{machines}" for number in range(machines)]


def stripe_bytes_for(files: Sequence[SourceFile], machines: int) -> int:
    """Bytes of a stripe: large, but small enough that every machine gets several stripes."""
    each = sum(file.size for file in files) // (_STRIPES * machines)
    return min(max(each, _LEAST_STRIPE_BYTES), STRIPE_BYTES)


def write_origin(directory: Path, origin: Origin) -> None:
    """Write the origin durably beside the manifest, without `settled`: the dataset's own files hold that."""
    content = {
        "files": [asdict(file) for file in origin.files],
        "options": asdict(origin.options),
        "limits": asdict(origin.limits),
        "machines": origin.machines,
        "stripe_bytes": origin.stripe_bytes,
    }
    write_file(directory / _NAME, [pack(content, _VERSION)])


def read_origin(directory: Path) -> Origin:
    """The origin of the dataset in this directory. Raises CorruptData, DatasetCorrupt, FileNotFoundError."""
    content = unpack((directory / _NAME).read_bytes(), _VERSION, "origin", "Read the dataset in again.")
    return Origin(
        files=tuple(SourceFile(**file) for file in content["files"]),
        options=InputOptions(**content["options"]),
        limits=Limits(**content["limits"]),
        machines=content["machines"],
        stripe_bytes=content["stripe_bytes"],
        settled=_settled(Dataset(directory)),
    )


def _settled(dataset: Dataset) -> SharedSchema:
    manifest = dataset.manifest
    return SharedSchema(manifest.uid, manifest.label_names, input_of_shards(manifest.input), numbering_of(dataset))
