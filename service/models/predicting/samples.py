"""Rows in the formats of short bodies, and models of each kind that take them.

A process that has predicted them has loaded the code of predictions: that takes it seconds, and to compile a kernel
that no process has compiled yet takes longer.
"""

from collections.abc import Iterator

import numpy as np

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model

_TABLE = {
    "format": "csv", "has_names": True, "n_columns": 3, "places": [1, 2], "columns": ["a", "b"], "categorical": ["b"],
    "missing": "zero", "categories": "dictionary", "dictionary": {"b": {"x": 0}},
}  # fmt: skip
_HASHED = {**_TABLE, "categories": "hashed", "n_features": 4}
_NUMBERS = {**_TABLE, "categorical": [], "dictionary": {}}


def samples() -> Iterator[tuple[Predictor, str, bytes]]:
    """Yield a predictor, a format ("json": an object with rows) and an input of one row."""
    two, three, hinge = np.ones(2), np.ones((3, 2)), {"loss": "hinge"}
    for model in (
        Model(two, (1.0, -1.0), 1, None, 0.0, hinge),
        Model(three, ("a", "b", "c"), 1, None, (0.0,) * 3, hinge, ((-1.0, 0.0),) * 3),
        Model(two, (), 1, None, 0.0, {"loss": "epsilon_insensitive"}),
    ):
        yield Predictor(model), "json", b'{"rows": [{"1": 1.5}]}'
        yield Predictor(model), "libsvm", b"1 1:1.5 2:1e-3\n"
        yield Predictor(model), "csv", b"1.5,2\n"
    for table, n_features in ((_TABLE, 2), (_HASHED, 5), (_NUMBERS, 2)):
        predictor = Predictor(Model(np.ones(n_features), (1.0, -1.0), 1, None, 0.0, {**hinge, "input": table}))
        yield predictor, "json", b'{"rows": [{"a": 1.5, "b": 2}]}'
        yield predictor, "auto", b"a,b\n1.5,2\n"
