"""Adds rows to a dataset, and removes blocks from it. Each change replaces the manifest once, and so is all or nothing.

Rules that keep existing rows as they are:

- New rows go into new blocks; their ids follow the ids of all existing rows.
- A feature that the dataset has renumbered or listed (`Numbering`) has the same number in new blocks. A new feature
  keeps its number in the input, or is listed after all other features if its number is beyond the dataset's bound.
- New rows are read with the dataset's index_base and normalize. Removing a block leaves n_features unchanged.
- Labels that are strings keep their numbers; new labels are numbered after them.
- A dataset of strings of bases takes only strings of the length that its strings have.
- A block keeps its number; the number of a removed block is never used again.
"""

import shutil
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import MOST_SHOWN, InputError
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.reading import MOST_LABELS, Reading
from streamsvm.reader.ingest.renumber import Renumbering, numbering_of
from streamsvm.reader.ingest.shuffle import BUCKETS, Shuffler
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.tables.mixed_columns import is_numbers
from streamsvm.reader.parsers.text.hashed_text import as_input
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.blocks.feature_files import read_words, write_listed, write_words
from streamsvm.storage.blocks.manifest import Manifest, WeightCounts, read_manifest, write_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.features.rows import drop_statistics, read_statistics, write_statistics
from streamsvm.storage.files.durable import publish

_FROM_ONE = "features of this dataset are numbered from 1: add one to the indices, or make a dataset with index_base=0"


class UnknownBlock(StorageError):
    """The dataset has no block with this number."""

    code = "unknown_block"


class LastBlock(StorageError):
    """Without this block the dataset would have no row, or none with a weight above 0."""

    code = "last_block"


def append_rows(
    chunks: Iterable[bytes] | SourceInput, directory: Path, options: InputOptions, limits: InputLimits, threads: int
) -> Manifest:
    """Add the rows of an input to the dataset in `directory`; return the new manifest. Raises InputError."""
    before = read_manifest(directory)
    staged = appending_path(directory)
    staged.mkdir()
    try:
        names = LabelNames("string" if before.label_names else "number", before.label_names)
        words = read_words(directory)
        reading = Reading(chunks, _as_before(options, before), limits, threads, staged, names, words)
        uid = uuid.uuid4().hex
        features = Renumbering.from_numbering(numbering_of(Dataset(directory)), before.width - 1)
        blocks = _stage(reading, before, staged, uid, threads, features)
        after = joined(before, manifest_of(reading, uid, blocks))
        listed = features.numbering.listed
        after = replace(after, own_width=features.own_width(after.input_width), listed=len(listed))
        limits.check_width(after.width)
        for block in blocks:
            publish(block_path(staged, block.number), block_path(directory, block.number))
        if len(listed) > before.listed:
            write_listed(directory, listed)
        if (words := reading.words) is not None:
            # If the manifest is not replaced after all, words that no row of the dataset has do no harm.
            write_words(directory, words)
        write_manifest(directory, after)
        # The rows are published: an error from here on would make the user add the same rows again.
        with suppress(OSError):
            # Statistics of other rows are made anew when they are needed.
            known, new = read_statistics(directory), reading.statistics
            if known is not None and new is not None and known.n_rows == before.n_rows and not before.listed:
                write_statistics(directory, known.plus(new))
        return after
    except InputError as error:
        if error.code == "index_zero":
            error.hint = _FROM_ONE
        raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def remove_block(directory: Path, number: int) -> Manifest:
    """Remove the block with this number; return the new manifest. Raises UnknownBlock, LastBlock, CorruptData."""
    dataset = Dataset(directory)
    before = dataset.manifest
    place = next((k for k, block in enumerate(before.blocks) if block.number == number), None)
    if place is None:
        raise UnknownBlock(f"the dataset has no block {number}")
    if len(before.blocks) == 1:
        raise LastBlock("this is the only block of the dataset", "Delete the dataset.")
    labels, norms, weights = _without(dataset, place)
    removed = before.blocks[place]
    if weights is not None and weights.zeros == before.n_rows - removed.rows:
        raise LastBlock("all rows but those of this block have weight 0", "Delete the dataset.")
    least, total, largest = before.Qii_spread
    after = replace(
        before,
        uid=uuid.uuid4().hex,
        blocks=before.blocks[:place] + before.blocks[place + 1 :],
        n_rows=before.n_rows - removed.rows,
        nnz=before.nnz - removed.nnz,
        labels={label: rows for label, rows in labels.items() if rows},
        Qii_spread=(least, max(total - norms, 0.0), largest),
        weights=weights,
    )
    write_manifest(directory, after)
    drop_statistics(directory)
    remove_unlisted_blocks(directory)
    return after


def remove_unlisted_blocks(directory: Path) -> None:
    """Delete block files that the manifest does not name: those of a removed block, or of an unfinished append."""
    listed = {block_path(directory, block.number) for block in read_manifest(directory).blocks}
    for path in (directory / "blocks").iterdir():
        if path not in listed:
            path.unlink()


def appending_path(directory: Path) -> Path:
    """Return the directory in which `append_rows` writes new blocks before they join the dataset in `directory`."""
    return directory.with_name(f".{directory.name}.appending")


def _as_before(options: InputOptions, before: Manifest) -> InputOptions:
    for name in ("index_base", "normalize"):
        if name in options.given and getattr(options, name) != getattr(before, name):
            raise InputError("option_unused", f"{name} is {getattr(before, name)} for all rows of this dataset")
    if before.input is not None and before.input["format"] == "text":
        options = as_input(options, before.input)
    type_ = "string" if before.label_names else "number"
    if options.label_type not in ("auto", type_):
        raise InputError("label_type", f"labels of this dataset are {type_}s")
    if is_of_strings(before.input):
        return replace(options, like=before.input)
    if before.input is not None and before.input["format"] != "text":
        options = replace(options, n_features=None)
    return replace(options, index_base=before.index_base, normalize=before.normalize, like=before.input or {})  # type: ignore[arg-type]


def _kind(input_: dict[str, Any] | None) -> str:
    """Return the name of the kind of rows with this `Manifest.input`, for an error message."""
    if input_ is None:
        return "numbered features"
    if is_of_strings(input_):
        return "strings"
    return "a table" if "columns" in input_ else "documents"


def _is_numbered(input_: dict[str, Any] | None) -> bool:
    """Whether the input has feature numbers, as LIBSVM text does, or each column of a table of numbers is a feature."""
    return input_ is None or is_numbers(input_)


def _stage(
    reading: Reading, before: Manifest, staged: Path, uid: str, threads: int, features: Renumbering
) -> tuple[BlockInfo, ...]:
    bounds, buckets = (before.row_bound, before.block_bound), BUCKETS if before.shuffle == "yes" else 1
    shuffler = Shuffler(staged, uid, before.row_bound, threads, *bounds, features, buckets)
    try:
        for rows in reading.rows():
            ours, theirs = before.input, reading.parser.input
            are_alike = _is_numbered(ours) and _is_numbered(theirs) and not (ours or {}).get("has_names")
            if _kind(ours) != _kind(theirs) and not are_alike:
                message = f"the rows of this dataset are made of {_kind(ours)}, these of {_kind(theirs)}"
                raise InputError("input_mismatch", message)
            if reading.holds_strings:
                features.leave()
            shuffler.add(rows)
        return shuffler.finish()
    except BaseException:
        shuffler.abandon()
        raise


def _without(dataset: Dataset, place: int) -> tuple[Counter[float], float, WeightCounts | None]:
    """Return (label counts without the block, sum of the block's squared norms, weight counts without the block).

    place   index of the block in manifest.blocks
    """
    before = dataset.manifest
    labels, norms, weights = Counter(before.labels), 0.0, before.weights
    for location in dataset.pieces(place):
        piece = dataset.piece(location)
        if before.labels:
            labels.subtract(piece.rows.label.tolist())
        norms += float(piece.Qii.sum())
        rows = piece.rows
        counts = WeightCounts.of_ones(len(rows)) if rows.weight is None else WeightCounts.of(rows.weight)
        weights = weights and weights.without(counts)
    return labels, norms, weights


def manifest_of(reading: Reading, uid: str, blocks: tuple[BlockInfo, ...]) -> Manifest:
    """Return the manifest of all rows that `reading` has read, stored in `blocks`, with the input's feature numbers."""
    return Manifest(
        uid=uid,
        index_base=reading.index_base,
        n_features=reading.n_features,
        n_rows=reading.lengths.rows,
        row_bound=reading.lengths.rows,
        block_bound=max(block.number for block in blocks) + 1,
        nnz=reading.nnz,
        labels=reading.labels,
        label_range=reading.label_range,
        longest_row=reading.lengths.most,
        input_bytes=reading.input.taken,
        counters=dict(reading.counters),
        blocks=blocks,
        normalize=reading.options.normalize,
        shuffle=reading.options.shuffle,
        Qii_spread=reading.Qii,
        rejected_rows=reading.rejected.rows,
        rejected=tuple(fault.problem() for fault in reading.rejected.first),
        weights=reading.weights,
        label_names=reading.names.names,
        has_groups=reading.has_groups,
        input=reading.described,
    )


def joined(first: Manifest, second: Manifest) -> Manifest:
    """Return the manifest of the rows of two manifests, which must number features and labels alike.

    Counts are added; bounds and ranges cover both. uid, label_names and `input` are those of `second`, and its
    label_names begin with those of `first`; all other fields are those of `first`.
    """
    labels = Counter(first.labels) + Counter(second.labels)
    are_classes = first.labels and second.labels and len(labels) <= MOST_LABELS
    least, total, largest = first.Qii_spread
    weights = None
    if first.weights is not None or second.weights is not None:
        ours, theirs = (each.weights or WeightCounts.of_ones(each.n_rows) for each in (first, second))
        weights = ours.with_(theirs)
    return replace(
        first,
        uid=second.uid,
        n_features=max(first.n_features, second.n_features),
        n_rows=first.n_rows + second.n_rows,
        row_bound=first.row_bound + second.n_rows,
        block_bound=max(first.block_bound, second.block_bound),
        nnz=first.nnz + second.nnz,
        labels=dict(labels) if are_classes else {},
        label_range=(
            min(first.label_range[0], second.label_range[0]),
            max(first.label_range[1], second.label_range[1]),
        ),
        longest_row=max(first.longest_row, second.longest_row),
        input_bytes=first.input_bytes + second.input_bytes,
        # Formats have different counters: a counter that a manifest lacks is 0.
        counters={
            name: first.counters.get(name, 0) + second.counters.get(name, 0)
            for name in (first.counters | second.counters)
        },
        blocks=first.blocks + second.blocks,
        Qii_spread=(min(least, second.Qii_spread[0]), total + second.Qii_spread[1], max(largest, second.Qii_spread[2])),
        rejected_rows=first.rejected_rows + second.rejected_rows,
        rejected=(*first.rejected, *second.rejected)[:MOST_SHOWN],
        weights=weights,
        label_names=second.label_names,
        has_groups=first.has_groups or second.has_groups,
        input=first.input and second.input,
    )
