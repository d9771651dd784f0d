"""The manifest of a dataset: what its blocks hold, and the checksums of its other files; and its profile."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.errors import UNREADABLE, CorruptData, DatasetCorrupt, StorageError
from streamsvm.storage.files.durable import pack, unpack, write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import TARGET, packed_bytes


@dataclass(frozen=True)
class WeightCounts:
    """Counts of rows' weights: the smallest, the sum, the largest, and the number of weights that are 0 in training.

    Datasets store weights as float64; training rounds each weight to float32, the type in segments.
    """

    least: float
    total: float
    largest: float
    zeros: int

    @classmethod
    def of(cls, weight: Array) -> "WeightCounts":
        """Return the counts of weights (n,), n > 0."""
        zeros = len(weight) - int((weight.astype(TARGET) > 0).sum())
        return cls(float(weight.min()), float(weight.sum()), float(weight.max()), zeros)

    @property
    def largest_trained(self) -> float:
        """The largest weight, rounded to float32 as in training."""
        return float(TARGET.type(self.largest))

    @classmethod
    def of_ones(cls, n_rows: int) -> "WeightCounts":
        """Return the counts of `n_rows` rows without weights, each of which counts as weight 1."""
        return cls(1.0, float(n_rows), 1.0, 0)

    def with_(self, other: "WeightCounts") -> "WeightCounts":
        """Return the counts of these rows together with the rows of `other`."""
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return WeightCounts(least, self.total + other.total, largest, self.zeros + other.zeros)

    def without(self, other: "WeightCounts") -> "WeightCounts":
        """Return the counts after removing rows with the counts `other`; least and largest become mere bounds."""
        total = max(self.total - other.total, 0.0)
        return WeightCounts(self.least, total, self.largest, self.zeros - other.zeros)


# A manifest has the oldest version that can express it: FURTHER came with version 6, some of them with later ones.
VERSION, _PLAIN_VERSION, _FURTHER_VERSION = 9, 5, 6
_LATER_VERSIONS = {"input": 7, "parts": 8, "own_width": 9}
MANIFEST = "manifest.json"
FURTHER = ("weights", "label_names", "has_groups", "input", "parts", "own_width", "listed")


def number_text(number: float) -> str:
    """Return the shortest text that float() turns into the number; a whole number has no decimal point."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class Manifest:
    """The content of a dataset.

    uid           identifies the content: adding or removing blocks changes it. A block's header has the uid that the
                  dataset had when the block was written
    index_base    0 or 1: the number of the first feature in the input, and in the blocks
    n_features    number of features of a model trained on the dataset: the input's largest number + 1 - index_base
    labels        label value -> number of rows; empty if there are too many labels
    label_range   the smallest and the largest label
    longest_row   largest number of values in a row
    renumbered    the features 0 to renumbered - 1 of the input have other numbers in the blocks
    places_checksum  checksum of the file with these numbers, see storage.blocks.feature_files
    counters      numbers of oddities that the parser accepted: blank lines, explicit zeros ...
    shuffle       "no" if rows are stored in the order of the input, else "yes"
    normalize     "row_l2" if every row was divided by its norm, else "none"
    Qii_spread    smallest, sum and largest of the rows' squared norms |x_i|^2
    row_bound     number of rows ever added: the rows' written ids are below it
    block_bound   exclusive upper bound of the numbers of blocks
    rejected_rows number of the input's rows that were left out; rejected: faults of the first few, as JSON objects
    weights       counts of the rows' weights; None: each row has weight 1
    label_names   names of labels that are strings: the label k of a row means label_names[k]; else empty
    has_groups    whether rows have groups, which cross-validation must not split
    input         for an input without numbered features (documents, strings, tables with words): its `format`, and the
                  facts from which further rows get the same features; a JSON object, which a model contains, too
    parts         number of blocks on each machine that has blocks, in the order of `blocks`; (): this machine has all
    own_width     feature numbers in the blocks are below it; 0: below n_features + index_base, as in the input
    listed        number of the blocks' last features that are listed: a file has their numbers in the input, see
                  storage.blocks.feature_files
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
        """Bytes that all rows would take in the cache, to be compared with `cache_bytes`."""
        return packed_bytes(self.n_rows, self.nnz)

    @property
    def stored_bytes(self) -> int:
        """Bytes that all blocks take on disk."""
        return sum(block.bytes for block in self.blocks)

    @property
    def has_gaps(self) -> bool:
        """Whether blocks were removed: the written ids of rows, stored in pieces, then differ from the present ids."""
        return self.row_bound > self.n_rows

    def label_text(self, label: float) -> str:
        """Return the text of a row's label: the name of a label that is a string, else the number."""
        return self.label_names[int(label)] if self.label_names else number_text(label)

    def label_of(self, text: str) -> float | None:
        """Return the label, as rows store it, for the text of a label; None if the text cannot be a label."""
        if self.label_names:
            return float(self.label_names.index(text)) if text in self.label_names else None
        try:
            return float(text)
        except ValueError:
            return None

    @property
    def width(self) -> int:
        """Length of a w indexed by the blocks' feature numbers; with index_base 1, w[0] belongs to no feature."""
        return self.own_width or self.input_width

    @property
    def input_width(self) -> int:
        """Length of a w indexed by the input's feature numbers, which are all below it."""
        return self.n_features + self.index_base


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, durably: this completes a new dataset, or changes a dataset atomically. Blocks must exist."""
    write_file(directory / MANIFEST, [_packed(manifest)])


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a dataset. Raises DatasetCorrupt if it is missing or damaged, UnknownVersion."""
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
    # Labels are stored as pairs, since the keys of JSON objects are texts, and labels are numbers.
    content = {**asdict(manifest), "labels": list(manifest.labels.items())}
    further = {name: content.pop(name) for name in FURTHER}
    used = {name: value for name, value in further.items() if value}
    versions = (_LATER_VERSIONS.get(name, _FURTHER_VERSION) for name in used)
    return pack({**content, **used}, max(versions, default=_PLAIN_VERSION))


# Version 2 added `warnings`. A profile has the oldest version that can express it.
_PROFILE = "profile.json"
_PAIRS = ("longest", "frequent", "scales")
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Profile:
    """Figures of the rows with which a dataset was created; rows added later are not included.

    rows          number of these rows
    lengths       numbers of rows with 0 values, with 1, with 2 or 3, with 4 to 7, and so on
    longest       (row number, values) of the longest rows, longest first; rows are numbered from 1 in input order
    frequent      (feature, number of rows with it) of the most frequent features, by the input's numbers
    counted_rows  number of rows, from the first on, that were counted for `frequent`
    scales        (feature, root mean square of its values) of the largest and the smallest features, largest first; ()
                  unless their scales differ so much that training is slow
    warnings      code and message of each warning, for example about columns that are probably no features
    """

    rows: int
    lengths: tuple[int, ...]
    longest: Pairs
    frequent: Pairs
    counted_rows: int
    scales: tuple[tuple[int, float], ...] = ()
    warnings: tuple[dict[str, str], ...] = ()


def write_profile(directory: Path, profile: Profile) -> None:
    """Write the profile, durably."""
    content = asdict(profile)
    if not profile.warnings:
        del content["warnings"]
    write_file(directory / _PROFILE, [pack(content, 2 if profile.warnings else 1)])


def read_profile(directory: Path) -> Profile | None:
    """Read the profile of a dataset; None if an old dataset has no profile, or the file cannot be read."""
    try:
        content = unpack((directory / _PROFILE).read_bytes(), 2, "profile", "", 1)
    except (OSError, StorageError):
        return None
    fields: dict[str, Any] = {**content, "lengths": tuple(content["lengths"])}
    fields["warnings"] = tuple(content.get("warnings", ()))
    for name in _PAIRS:
        fields[name] = tuple(map(tuple, content.get(name, ())))
    return Profile(**fields)
