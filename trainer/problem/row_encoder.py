"""Makes the rows of a dataset's pieces ready for training: with class codes for labels, folds, early feature maps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.errors import DatasetCorrupt
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import with_features
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import written_ids
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, OFFSET, ROW_ID, TARGET, Segment
from streamsvm.trainer.problem.tasks import Tasks

_WORD = (1 << 64) - 1


def fold_of(keys: Array, of: int, seed: int) -> Array:
    """Return the folds (n,) int64, 0 to `of` - 1, of rows by their keys (n,): row ids, or hashes of groups.

    A fold is a hash (splitmix64: Steele, Lea, Flood, OOPSLA 2014) of seed and key: it does not depend on other rows.
    """
    z = keys.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & _WORD)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) % np.uint64(of)).astype(np.int64)


def deal(codes: Array, dealt: Array, of: int, seed: int) -> Array:
    """Deal rows of these class codes (n,) to folds (n,), 0 to `of` - 1; each fold has as many of a class, within one.

    Of each `of` rows of a class, in order, each goes to another fold; a hash of seed, class and turn says which first.

    dealt  (n_classes,): how many rows of each class were dealt before; changed in place
    """
    counts = np.bincount(codes, minlength=len(dealt))
    number = np.empty(len(codes), np.int64)  # of each row among those of its class
    first = np.cumsum(counts) - counts
    number[np.argsort(codes, kind="stable")] = np.arange(len(codes)) - np.repeat(first - dealt, counts)
    dealt += counts
    turn = number // of * len(dealt) + codes
    return ((number + fold_of(turn, of, seed)) % of).astype(CODE)


def write_folds(path: Path, labels: Iterable[Array], classes: Sequence[float], of: int, seed: int) -> None:
    """Write the folds of all rows, (n_rows,) CODE by id, dealt class by class; `labels` yields labels by row id."""
    dealt = np.zeros(len(classes), np.int64)
    encoder = RowEncoder(classes)
    with path.open("wb") as file:
        for each in labels:
            file.write(deal(encoder.class_codes(each), dealt, of, seed).tobytes())


@dataclass
class RowEncoder:
    """Makes the segments that trainer and certificate use from the rows of a dataset.

    labels         labels of the classes, by code; if only one is listed, rows with any other label get code 1
    is_regression  rows have numbers to predict, and no classes
    n_folds, seed  a hash with this seed deals rows to n_folds folds
    folds          the fold of each row by id (`write_folds`), in place of the hash; None: the hash
    has_weights    whether segments have weights; rows without a weight get 1
    maps           feature maps that are applied once, when rows are read; None: there are none
    makes_dense    whether rows become dense where that is shorter, as kernels of linear machines can read; else sparse
    part_rows      for a shard: the ids that its rows have in the whole dataset, which decide the folds, as runs (see
                   storage.rows.row_runs); None: the dataset is whole
    """

    labels: Sequence[float] = ()
    is_regression: bool = False
    n_folds: int = 1
    seed: int = 0
    has_weights: bool = False
    maps: FeatureMaps | None = None
    part_rows: Array | None = None
    makes_dense: bool = False
    folds: Array | None = None

    @classmethod
    def of_tasks(
        cls,
        tasks: Tasks,
        has_weights: bool = False,
        maps: FeatureMaps | None = None,
        part_rows: Array | None = None,
        makes_dense: bool = False,
        folds: str | None = None,
    ) -> "RowEncoder":
        """Return the encoder of rows for a run with these tasks; folds: path of the file of `write_folds`, or None."""
        known = tasks.labels, tasks.is_regression, tasks.n_folds, tasks.seed
        dealt = None if folds is None else np.memmap(folds, CODE, "r")
        return cls(*known, has_weights, maps, part_rows, makes_dense, dealt)

    def encode(self, piece: Piece) -> Segment:
        """Return the rows of a piece as a segment."""
        rows, n_rows = piece.rows, len(piece)
        weight = np.ones(n_rows) if rows.weight is None and self.has_weights else rows.weight
        encoded = Segment(
            row_id=np.arange(piece.first_row, piece.first_row + n_rows, dtype=ROW_ID),
            class_code=np.zeros(n_rows, CODE) if self.is_regression else self.class_codes(rows.label),
            fold=self._folds(piece),
            Qii=piece.Qii,
            indptr=rows.indptr.astype(OFFSET),
            indices=rows.indices,
            values=rows.values,
            target=rows.label.astype(TARGET) if self.is_regression else NO_COLUMN,
            weight=NO_COLUMN if weight is None else weight,
        )
        mapped = encoded if self.maps is None else with_features(encoded, self.maps)
        return mapped.in_shortest_form if self.makes_dense else mapped

    def class_codes(self, label: Array) -> Array:
        """Return the class codes of these labels (n,). Raises DatasetCorrupt if two or more are listed, but not all."""
        labels = np.asarray(self.labels, float)
        by_value = np.argsort(labels)
        places = np.minimum(np.searchsorted(labels[by_value], label), len(labels) - 1)
        codes = by_value[places]
        is_known = labels[codes] == label
        if len(labels) > 1 and not is_known.all():
            # Kernels look a row's kind up in a table that has no line for it.
            raise DatasetCorrupt("a row has a label that its manifest does not list")
        return np.where(is_known, codes, len(labels)).astype(CODE)

    def _folds(self, piece: Piece) -> Array:
        """Return the fold of each row, (n,): as dealt; else by a hash of its group, if it has one, or of its id."""
        if self.n_folds == 1:
            return np.zeros(len(piece), CODE)
        if self.folds is not None:
            return np.array(self.folds[piece.first_row : piece.first_row + len(piece)])
        keys = piece.rows.group
        if keys is None:
            ids = np.arange(piece.first_row, piece.first_row + len(piece))
            keys = ids if self.part_rows is None else written_ids(self.part_rows, ids)
        return fold_of(keys, self.n_folds, self.seed).astype(CODE)
