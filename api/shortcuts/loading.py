"""Loads the modules and kernels of predictions, in a thread when the service starts.

Loading takes seconds, and compiling a kernel that no process has compiled yet takes longer. A shortcut predicts in the
event loop, where this would hold up every client, so shortcuts leave predictions to the routes until it is done.
"""

import io
import logging
from collections.abc import Iterator
from threading import Event

import numpy as np

from streamsvm.api.routes.predicting import JSON, predicted_rows
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.predicting.answers import ANSWERS
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import Model

_log = logging.getLogger("streamsvm.api")
_TABLE = {
    "format": "csv", "has_names": True, "n_columns": 3, "places": [1, 2], "columns": ["a", "b"], "categorical": ["b"],
    "missing": "zero", "categories": "dictionary", "dictionary": {"b": {"x": 0}},
}  # fmt: skip
_HASHED = {**_TABLE, "categories": "hashed", "n_features": 4}
_NUMBERS = {**_TABLE, "categorical": [], "dictionary": {}}


class PredictionCode:
    """The code that answers short predictions of linear models, in this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded = Event()

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has ended, and shortcuts may predict."""
        return self._loaded.is_set()

    def load(self) -> None:
        """Predict a row in each way a shortcut can. A fault is logged, and the routes go on answering everything."""
        try:
            for predictor, kind, body in _rows():
                predicted = predicted_rows(self._settings, predictor, kind, [body], InputOptions(), io.BytesIO())
                for written in ANSWERS.values():
                    predicted.values.seek(0)
                    b"".join(written(predicted))
        except Exception:
            _log.exception("predictions have no shortcut: their code could not be loaded")
        else:
            self._loaded.set()


def _rows() -> Iterator[tuple[Predictor, str, bytes]]:
    """A predictor, the Content-Type of a body, and a body of one row."""
    for predictor in _linear():
        yield predictor, JSON, b'{"rows": [{"1": 1.5}]}'
        yield predictor, "text/libsvm", b"1 1:1.5 2:1e-3\n"
        yield predictor, "text/csv", b"1.5,2\n"
    for predictor in _of_tables():
        yield predictor, JSON, b'{"rows": [{"a": 1.5, "b": 2}]}'
        yield predictor, "", b"a,b\n1.5,2\n"


def _linear() -> Iterator[Predictor]:
    """Predictors of two features: of two classes, of three with probabilities, and of numbers."""
    yield Predictor(Model(np.ones(2), (1.0, -1.0), 1, None, 0.0, {"loss": "hinge"}))
    yield Predictor(Model(np.ones((3, 2)), ("a", "b", "c"), 1, None, (0.0,) * 3, {"loss": "hinge"}, ((-1.0, 0.0),) * 3))
    yield Predictor(Model(np.ones(2), (), 1, None, 0.0, {"loss": "epsilon_insensitive"}))


def _of_tables() -> Iterator[Predictor]:
    """Predictors of tables: with listed categories, with hashed ones, and of numbers alone."""
    for table, n_features in ((_TABLE, 2), (_HASHED, 5), (_NUMBERS, 2)):
        yield Predictor(Model(np.ones(n_features), (1.0, -1.0), 1, None, 0.0, {"loss": "hinge", "input": table}))
