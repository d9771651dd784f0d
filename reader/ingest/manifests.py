"""Makes the manifest of the rows that a `Reading` has read, and joins two manifests."""

from collections import Counter
from dataclasses import replace

from streamsvm.reader.errors import MOST_SHOWN
from streamsvm.reader.ingest.reading import MOST_LABELS, Reading
from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.blocks.manifest import Manifest, WeightCounts


def manifest_of(reading: Reading, uid: str, blocks: tuple[BlockInfo, ...]) -> Manifest:
    """Return the manifest of all rows that `reading` has read, stored in `blocks`, with the input's feature numbers."""
    parser = reading.parser
    return Manifest(
        uid=uid,
        index_base=parser.index_base,
        n_features=reading.n_features,
        n_rows=parser.rows,
        row_bound=parser.rows,
        block_bound=max(block.number for block in blocks) + 1,
        nnz=parser.nnz,
        labels=reading.labels,
        label_range=reading.label_range,
        longest_row=reading.lengths.most,
        input_bytes=reading.input.taken,
        counters=parser.counters,
        blocks=blocks,
        normalize=reading.options.normalize,
        shuffle=reading.options.shuffle,
        Qii_spread=reading.Qii,
        rejected_rows=parser.rejected.rows,
        rejected=reading.rejected,
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
        weights=_joined_weights(first, second),
        label_names=second.label_names,
        has_groups=first.has_groups or second.has_groups,
        input=first.input and second.input,
    )


def _joined_weights(first: Manifest, second: Manifest) -> WeightCounts | None:
    if first.weights is None and second.weights is None:
        return None
    return (first.weights or WeightCounts.of_ones(first.n_rows)).with_(
        second.weights or WeightCounts.of_ones(second.n_rows)
    )
