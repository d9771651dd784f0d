"""Models of tables with categories and of strings of bases, for tests of every route that predicts."""

import itertools
from typing import Any

import numpy as np

from streamsvm.reader.parsers.fasta import letters_of
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Rows

TABLE = {
    "format": "csv", "has_names": True, "n_columns": 4, "places": [1, 2, 3], "columns": ["proto", "size", "flag"],
    "categorical": ["proto", "flag"], "missing": "zero", "categories": "dictionary",
    "dictionary": {"proto": {"tcp": 0, "udp": 2}, "flag": {"S0": 1}},
}  # fmt: skip
STRINGS = {"format": "fasta", "length": 4, "alphabet": "ACGT"}
# size, proto=tcp, flag=S0, proto=udp
WEIGHTS = [0.5, 1.0, 10.0, 100.0]


def table_model(**changed: Any) -> Model:
    return Model(np.array(WEIGHTS), (1.0, -1.0), 1, None, 0.0, {"loss": "hinge", "input": {**TABLE, **changed}})


def string_model() -> Model:
    return Model(np.ones(1), (1.0, -1.0), 0, None, 0.0, {"loss": "hinge", "input": STRINGS})


def by_letters(self: Predictor, rows: Rows, _: None = None) -> Prediction:
    """In place of Predictor.predict, for models of strings: how many A a string has, less three halves."""
    assert self.input == STRINGS
    ends = rows.indptr.tolist()
    strings = [letters_of(rows.indices[i:j], rows.values[i:j], 4) for i, j in itertools.pairwise(ends)]
    values = np.array([string.count("A") - 1.5 for string in strings])
    return Prediction(self.labels(values), values, rows.label, 0)
