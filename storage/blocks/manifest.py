"""The manifest of a dataset: what its blocks hold, and the checksums of its other files."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt
from streamsvm.storage.files.durable import pack, unpack, write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import TARGET, packed_bytes


@dataclass(frozen=True)
class WeightCounts:
    """The smallest weight, the sum, the largest, and how many are 0 in training.

    Datasets store weights as float64. Training rounds each to float32, as a segment stores it.
    """

    least: float
    total: float
    largest: float
    zeros: int

    @classmethod
    def of(cls, weight: Array) -> "WeightCounts":
        """The counts of weights (n,), n > 0."""
        zeros = len(weight) - int((weight.astype(TARGET) > 0).sum())
        return cls(float(weight.min()), float(weight.sum()), float(weight.max()), zeros)

    @property
    def largest_trained(self) -> float:
        """The largest weight, rounded as training rounds it."""
        return float(TARGET.type(self.largest))

    @classmethod
    def of_ones(cls, n_rows: int) -> "WeightCounts":
        """The counts of rows without weights, each of which has weight 1."""
        return cls(1.0, float(n_rows), 1.0, 0)

    def with_(self, other: "WeightCounts") -> "WeightCounts":
        """The counts of these rows and the others together."""
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return WeightCounts(least, self.total + other.total, largest, self.zeros + other.zeros)

    def without(self, other: "WeightCounts") -> "WeightCounts":
        """The counts after removing rows with the counts `other`; least and largest are then only bounds."""
        total = max(self.total - other.total, 0.0)
        return WeightCounts(self.least, total, self.largest, self.zeros - other.zeros)


# Version 6 added FURTHER, 7 `input`, 8 `parts`, 9 `own_width`. A manifest has the oldest version that can express it.
VERSION, _PARTS_VERSION, _INPUT_VERSION, _FURTHER_VERSION, _PLAIN_VERSION = 9, 8, 7, 6, 5
MANIFEST = "manifest.json"
FURTHER = ("weights", "label_names", "has_groups", "input", "parts", "own_width", "listed")


def number_text(number: float) -> str:
    """The shortest text that float() turns back into the number; whole numbers without a decimal point."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class Manifest:
    """The content of a dataset.

    uid           identifies the content; adding or removing blocks changes it. A block's header has the uid of the
                  dataset as it was when the block was written
    index_base    0 or 1: the number of the first feature in the input, and in the blocks
    n_features    features of a model trained on it: the largest number in the input + 1 - index_base
    labels        label value -> number of rows; empty if there are too many labels
    label_range   the smallest and the largest label
    longest_row   most non-zeros in a row
    renumbered    so many features, from the first on, have other numbers in the blocks than in the input
    places_checksum  of the file that tells these numbers, see storage.blocks.feature_numbers
    counters      what the parser accepted but counted: blank lines, explicit zeros ...
    shuffle       "no" if rows are stored in the order of the input, else "yes"
    normalize     "row_l2" if every row was divided by its norm, else "none"
    Qii_spread    least, sum and largest of the squared norms of the rows
    row_bound     number of rows ever added; the rows' written ids are below it
    block_bound   the numbers of blocks are below it
    rejected_rows rows of the input that were left out; rejected: what was wrong with the first few of them
    weights       counts of the rows' weights; None: each row has weight 1
    label_names   names of labels that are strings: a row's label is a place in it; else empty
    has_groups    whether some rows belong together
    input         for an input without numbered features (documents, strings, tables with words): its `format`, and what
                  is needed to make features of further rows in the same way; JSON. A model carries it, too
    parts         number of blocks on each machine that has some, in the order of `blocks`; (): all are on this machine
    own_width     in the blocks, feature numbers are below it; 0: below n_features + index_base, as in the input
    listed        number of features at the end of the blocks' numbers whose numbers in the input are listed in a file,
                  see storage.blocks.feature_numbers
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
    renumbered: int = 0
    places_checksum: int = 0
    normalize: str = "none"
    shuffle: str = "yes"
    Qii_spread: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rejected_rows: int = 0
    rejected: tuple[dict[str, Any], ...] = ()
    label_range: tuple[float, float] = (0.0, 0.0)
    row_bound: int = 0
    block_bound: int = 0
    weights: WeightCounts | None = None
    label_names: tuple[str, ...] = ()
    has_groups: bool = False
    input: dict[str, Any] | None = None
    parts: tuple[int, ...] = ()
    own_width: int = 0
    listed: int = 0

    @property
    def decoded_bytes(self) -> int:
        """Bytes that all rows would take in the cache; compare it with `cache_bytes`."""
        return packed_bytes(self.n_rows, self.nnz)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks on disk."""
        return sum(block.bytes for block in self.blocks)

    @property
    def has_gaps(self) -> bool:
        """Whether blocks were removed: written ids of rows, which pieces hold, then differ from their present ids."""
        return self.row_bound > self.n_rows

    def label_text(self, label: float) -> str:
        """The text of a row's label: its name, or the number."""
        return self.label_names[int(label)] if self.label_names else number_text(label)

    def label_of(self, text: str) -> float | None:
        """The label that rows hold for this text; None if the text cannot be a label."""
        if self.label_names:
            return float(self.label_names.index(text)) if text in self.label_names else None
        try:
            return float(text)
        except ValueError:
            return None

    @property
    def width(self) -> int:
        """Length of a w by the blocks' feature numbers; w[0] is unused if the input counts from 1."""
        return self.own_width or self.input_width

    @property
    def input_width(self) -> int:
        """Length of a w by the input's feature numbers, which are all below it."""
        return self.n_features + self.index_base


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, durably. It completes a new dataset, or changes one atomically; the blocks must exist."""
    write_file(directory / MANIFEST, [_packed(manifest)])


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a dataset. Raises DatasetCorrupt, UnknownVersion."""
    try:
        content = unpack((directory / MANIFEST).read_bytes(), VERSION, "manifest", "", _PLAIN_VERSION)
    except CorruptData as error:
        raise DatasetCorrupt(error.message) from error
    except FileNotFoundError as error:
        raise DatasetCorrupt("the manifest is missing") from error
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        raise DatasetCorrupt("the disk cannot read the manifest") from error
    content["labels"] = {float(value): rows for value, rows in content["labels"]}
    content["blocks"] = tuple(BlockInfo(**block) for block in content["blocks"])
    for name in ("Qii_spread", "rejected", "label_range", "label_names", "parts"):
        content[name] = tuple(content.get(name, ()))
    content["weights"] = WeightCounts(**content["weights"]) if content.get("weights") else None
    return Manifest(**content)


def _packed(manifest: Manifest) -> bytes:
    # Pairs, since keys of JSON objects are texts and labels are numbers.
    content = {**asdict(manifest), "labels": list(manifest.labels.items())}
    further = {name: content.pop(name) for name in FURTHER}
    used = {name: value for name, value in further.items() if value}
    return pack({**content, **used}, _version(used))


def _version(used: dict[str, Any]) -> int:
    if "own_width" in used:
        return VERSION
    if "parts" in used:
        return _PARTS_VERSION
    if "input" in used:
        return _INPUT_VERSION
    return _FURTHER_VERSION if used else _PLAIN_VERSION
