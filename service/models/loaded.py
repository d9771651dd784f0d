"""Keeps the predictors of the most recently used models in memory."""

from concurrent.futures import Future
from pathlib import Path
from threading import Lock

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import read_model

_MOST = 4
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
        if directory in _predictors:  # since the look before
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
