"""Keeps predictors of the most recently used models in memory; makes small sample models, which load the code."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Lock

import numpy as np

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import OWN_MEMORY
from streamsvm.storage.models.model_file import Model, read_model

_MOST = 4
_TABLE = {
    "format": "csv", "has_names": True, "n_columns": 3, "places": [1, 2], "columns": ["a", "b"], "categorical": ["b"],
    "missing": "zero", "categories": "dictionary", "dictionary": {"b": {"x": 0}},
}  # fmt: skip
_HASHED = {**_TABLE, "categories": "hashed", "n_features": 4}
_NUMBERS = {**_TABLE, "categorical": [], "dictionary": {}}
_lock = Lock()
# By the model's directory.
_predictors: dict[Path, Predictor] = {}  # the least recently used comes first
_loading: dict[Path, Future[Predictor]] = {}


def load_predictor(settings: Settings, model_id: str) -> Predictor:
    """Return a recorded model's predictor; read it from disk if it is not in memory. Recorded models never change.

    Threads that want the same model wait for the first of them, which reads it.
    """
    predictor = loaded_predictor(settings, model_id)
    if predictor is not None:
        return predictor
    directory = settings.models / model_id
    with _lock:
        if directory in _predictors:  # another thread has loaded it since `loaded_predictor` returned
            return _predictors[directory]
        loading, is_first = _loading.get(directory), directory not in _loading
        if loading is None:
            loading = _loading[directory] = Future()
    if is_first:
        _load(directory, loading)
    return loading.result()


def _load(directory: Path, loading: Future[Predictor]) -> None:
    try:
        predictor = Predictor(read_model(directory))
    except BaseException as error:
        with _lock:
            del _loading[directory]
        loading.set_exception(error)
    else:
        with _lock:
            del _loading[directory]
            _predictors[directory] = predictor
            while len(_predictors) > _MOST:
                del _predictors[next(iter(_predictors))]
        loading.set_result(predictor)


def loaded_predictor(settings: Settings, model_id: str) -> Predictor | None:
    """Return the predictor if it is in memory and the model's files have not been deleted, else None."""
    directory = settings.models / model_id
    with _lock:
        predictor = _predictors.pop(directory, None)
        if predictor is None or not directory.exists():
            return None
        _predictors[directory] = predictor
    return predictor


def forget_predictors() -> None:
    """Free the memory of all loaded models; each model is read again at its next use."""
    with _lock:
        _predictors.clear()
    OWN_MEMORY.renew()


def samples() -> Iterator[tuple[Predictor, str, bytes]]:
    """Yield small predictors, each with a format ("json": an object with `rows`) and an input of one row in it.

    Predicting all these inputs loads the code of predictions, which takes seconds; compiling a kernel that no process
    has compiled yet takes longer.
    """
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
