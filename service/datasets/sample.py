"""Shows the first rows of a dataset's first block as they are stored."""

import itertools
from typing import Any

import numpy as np

from streamsvm.reader.parsers.strings.strings import is_of_strings, letters_of
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import Array, Rows

MOST_ROWS = 10
MOST_FEATURES = 25
MOST_LETTERS = 1000


def sample(dataset: Dataset) -> list[dict[str, Any]]:
    """Describe up to MOST_ROWS rows: `label`; then `string` and `letters`, or `non_zeros` and the first `features`.

    A feature is its number in the input, its `name` (None if it has none) and its `value`. Raises DatasetCorrupt.
    """
    manifest = dataset.manifest
    rows = dataset.piece(dataset.pieces(0)[0]).rows
    ends = rows.indptr[: MOST_ROWS + 1].tolist()
    parts = list(itertools.pairwise(ends))
    if is_of_strings(manifest.input):
        assert manifest.input is not None
        shown: list[dict[str, Any]] = [_string(rows, *part, manifest.input["length"]) for part in parts]
    else:
        numbers = dataset.numbers[rows.indices[: ends[-1]]]
        names = feature_names(manifest.input, set(numbers.tolist()), manifest.index_base)
        shown = [_features(rows, *part, numbers, names) for part in parts]
    labels = rows.label[: len(parts)].tolist()
    return [{"label": manifest.label_text(label), **row} for label, row in zip(labels, shown, strict=True)]


def _string(rows: Rows, begin: int, end: int, length: int) -> dict[str, Any]:
    string = letters_of(rows.indices[begin:end], rows.values[begin:end], length)
    return {"string": string[:MOST_LETTERS], "letters": length}


def _features(rows: Rows, begin: int, end: int, numbers: Array, names: dict[int, str]) -> dict[str, Any]:
    first = np.argsort(numbers[begin:end], kind="stable")[:MOST_FEATURES] + begin
    pairs = zip(numbers[first].tolist(), rows.values[first].tolist(), strict=True)
    features = [{"feature": number, "name": names.get(number), "value": value} for number, value in pairs]
    return {"non_zeros": end - begin, "features": features}
