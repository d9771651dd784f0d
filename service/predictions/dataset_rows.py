"""Predicts the rows of a dataset, in the order in which they were added to it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.tables.matching import Column
from streamsvm.service.models.predicting.input_match import match_dataset
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.feature_files import FeatureWords, read_words
from streamsvm.storage.rows.csr import INDEX, INDPTR, Array, Rows
from streamsvm.storage.rows.segment import packed_bytes

# Column of a dataset that can be copied to the predictions -> its Arrow type; text labels have the type string.
KEPT = {"row": "int64", "label": "float64", "weight": "float64"}


def check_kept(keep: Sequence[str]) -> None:
    """Raise InputError keep_missing if `keep` has a column that no dataset has."""
    for name in keep:
        if name not in KEPT:
            raise InputError("keep_missing", f"a dataset has no column {name[:40]}", hint=f"it has {', '.join(KEPT)}")


class DatasetUnit(NamedTuple):
    """Pieces [start, stop) of the dataset whose contents have this uid, in the order of their rows."""

    uid: str
    start: int
    stop: int
    size: int

    def described(self) -> list[Any]:
        """Return a value for JSON that identifies the unit: uid of the dataset's contents, `start` and `stop`."""
        return [self.uid, self.start, self.stop]


class DatasetSource:
    """The rows of the dataset in a directory, which it cuts into units; it has the methods of `FileSource`.

    keep        names in KEPT: row (its number from 0, in the order in which rows were added), label, weight
    unit_bytes  approximate bytes of decoded rows in a unit
    """

    def __init__(self, predictor: Predictor, directory: Path, keep: Sequence[str], unit_bytes: int) -> None:
        self._predictor, self._dataset = predictor, Dataset(directory)
        self._keep, self._unit_bytes = keep, unit_bytes
        self._manifest = self._dataset.manifest

    def units(self, told: Callable[[], None]) -> Sequence[DatasetUnit]:
        """Cut the rows into units, in order; call `told` as a heartbeat. Raises InputError, ServiceError."""
        check_kept(self._keep)
        self._numbers  # noqa: B018 - raises an error for a dataset that does not fit the model, before any prediction
        told()
        pieces = self._pieces
        decoded = np.cumsum(packed_bytes(pieces["rows"].astype(np.int64), pieces["nnz"].astype(np.int64)))
        firsts = np.flatnonzero(np.diff(decoded // self._unit_bytes, prepend=-1))
        stops = np.append(firsts[1:], len(pieces))
        sizes = np.add.reduceat(pieces["bytes"].astype(np.int64), firsts)
        uid = self._manifest.uid
        return [DatasetUnit(uid, *each) for each in zip(firsts.tolist(), stops.tolist(), sizes.tolist(), strict=True)]

    def kept_types(self, _: Sequence[DatasetUnit]) -> list[Any] | None:
        """Return the Arrow types of the columns `keep`, which do not depend on the units."""
        types = KEPT | ({"label": "string"} if self._manifest.label_names else {})
        import pyarrow  # noqa: PLC0415 - slow to import

        return [pyarrow.type_for_alias(types[name]) for name in self._keep]

    def predictions(self, unit: DatasetUnit) -> Iterator[tuple[Prediction, list[Column]]]:
        """Yield the predictions of a unit's rows in order, each batch with its columns `keep`."""
        for location in self._pieces[unit.start : unit.stop]:
            piece = self._dataset.piece(location)
            row, rows = piece.first_row, self._as_model(piece.rows)
            for prediction in self._predictor.predictions(rows, self._words):
                begin, end = row - piece.first_row, row - piece.first_row + len(prediction.labels)
                kept = [self._column(name, piece.rows, row, begin, end) for name in self._keep]
                yield self._named(prediction), kept
                row += len(prediction.labels)

    def _column(self, name: str, rows: Rows, row: int, begin: int, end: int) -> Column:
        if name == "row":
            return list(range(row, row + end - begin))
        if name == "weight":
            return [1.0] * (end - begin) if rows.weight is None else rows.weight[begin:end].tolist()
        labels = rows.label[begin:end].tolist()
        if self._manifest.label_names:
            return [self._manifest.label_names[int(label)] for label in labels]
        return [int(label) if label.is_integer() else label for label in labels]

    def _named(self, prediction: Prediction) -> Prediction:
        if not self._manifest.label_names:
            return prediction
        names = np.array(self._manifest.label_names)
        return replace(prediction, expected=names[prediction.expected.astype(int)])

    @cached_property
    def _words(self) -> FeatureWords | None:
        return read_words(self._dataset.directory) if self._predictor.explainer else None

    @cached_property
    def _pieces(self) -> Array:
        """The LOCATIONs (n,) of all pieces of the dataset, in the order of their rows."""
        return self._dataset.all_pieces(in_row_order=True)

    @cached_property
    def _numbers(self) -> Array | None:
        """The model's number of each feature of the blocks, (width,); below 0: left out. None: the same numbers."""
        matched = match_dataset(self._predictor.model, self._manifest).numbers
        if is_of_strings(self._manifest.input) or (matched is None and not self._dataset.has_own_order):
            return None
        numbers = self._dataset.numbers if matched is None else matched[self._dataset.numbers]
        # A number that no model has stays unknown.
        return np.minimum(numbers, np.iinfo(INDEX).max).astype(INDEX)

    def _as_model(self, rows: Rows) -> Rows:
        """Renumber the features of rows as in the model; the numbers ascend within a row, as in rows of a file."""
        if self._numbers is None:
            return rows
        indices, values, indptr = self._numbers[rows.indices], rows.values, rows.indptr
        is_left = indices >= 0
        if not is_left.all():
            indptr = np.concatenate(([0], np.cumsum(is_left)))[indptr]
            indices, values = indices[is_left], values[is_left]
        width = int(indices.max(initial=-1)) + 1
        ordered = sparse.csr_matrix((values, indices, indptr), (len(rows), width), copy=True)
        ordered.sort_indices()
        return replace(rows, indptr=indptr.astype(INDPTR), indices=ordered.indices.astype(INDEX), values=ordered.data)
