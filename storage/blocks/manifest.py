"""What a dataset on disk holds: its manifest, which counts and checks all the rest."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.blocks.weight_counts import WeightCounts
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.segment import packed_bytes

# 6 has FURTHER, 7 `input`, 8 `parts`, 9 `own_width`. A manifest is written as the oldest that can say it.
VERSION, _PARTS_VERSION, _INPUT_VERSION, _FURTHER_VERSION, _PLAIN_VERSION = 9, 8, 7, 6, 5
MANIFEST = "manifest.json"
FURTHER = ("weights", "label_names", "has_groups", "input", "parts", "own_width", "listed")


def number_text(number: float) -> str:
    """In as few digits as give the number back; a whole one without a point."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class Manifest:
    """What a dataset holds.

    uid           names these very bytes; block headers have the one under which they were written
    index_base    0 or 1: the number of the first feature in the input, and in the blocks
    n_features    features of a model trained on it: the largest index + 1 - index_base
    labels        label value -> number of rows; empty if there are very many
    label_range   the smallest and the largest
    longest_row   most non-zeros in a row
    renumbered    features, from the first on, that have other numbers in the blocks than in the input
    places_checksum  of the file that says which
    counters      what the parser accepted but counted: blank lines, explicit zeros ...
    shuffle       "no" if its rows are stored in the order of the input, else "yes"
    normalize     "row_l2" if every row was divided by its norm, else "none"
    Qii_spread    least, sum and largest of the squared norms of the rows
    row_bound     rows that ever were: what pieces state as their first rows is below
    block_bound   the numbers of blocks are below
    rejected_rows rows of the input that were left out; rejected: what was wrong with the first few of them
    weights       of the rows; None: there are none, each row has weight 1
    label_names   of labels that are strings: rows hold their places in this; else empty
    has_groups    whether there are rows that belong together
    input         of an input whose rows hold no numbered features (documents, strings, tables with words): its `format`
                  and all that is needed to make features of further rows in the same way; JSON. A model carries it
    parts         blocks of each of the machines that have them, in the order of `blocks`; none: they are all here
    own_width     numbers of features are below it in the blocks; 0: below n_features + index_base, as in the input
    listed        features, the last ones there, that storage.blocks.listed_features says the input's numbers of
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
        """Size of all rows as the cache would hold them: what `cache_bytes` is to be compared with."""
        return packed_bytes(self.n_rows, self.nnz)

    @property
    def stored_bytes(self) -> int:
        """Size of all blocks on disk."""
        return sum(block.bytes for block in self.blocks)

    @property
    def has_gaps(self) -> bool:
        """Whether a block was removed: pieces state the ids their rows were written with, others than they have now."""
        return self.row_bound > self.n_rows

    def label_text(self, label: float) -> str:
        """How the label that rows hold stood in the input: a name, or the number."""
        return self.label_names[int(label)] if self.label_names else number_text(label)

    def label_of(self, text: str) -> float | None:
        """What rows hold for a label that is written so; None if it cannot be one."""
        if self.label_names:
            return float(self.label_names.index(text)) if text in self.label_names else None
        try:
            return float(text)
        except ValueError:
            return None

    @property
    def width(self) -> int:
        """Length of a weight vector indexed as the rows are: an unused place 0 if the input counts from 1."""
        return self.own_width or self.input_width

    @property
    def input_width(self) -> int:
        """Numbers of features are below it in the input."""
        return self.n_features + self.index_base


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Complete a dataset, or change it to what the manifest says, at once and durably; its blocks are there."""
    write_file(directory / MANIFEST, [_packed(manifest)])


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a dataset, checked. Raises DatasetCorrupt, UnknownVersion."""
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
    # JSON keys are text; pairs keep a label the number it is.
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
