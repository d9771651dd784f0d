"""Keeps the predictors of the most recently used models in memory."""

from concurrent.futures import Future
from threading import Lock

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import load_model
from streamsvm.service.settings import Settings

_MOST = 4
_lock = Lock()
_predictors: dict[tuple[Settings, str], Predictor] = {}  # the least recently used comes first
_loading: dict[tuple[Settings, str], Future[Predictor]] = {}


def load_predictor(settings: Settings, model_id: str) -> Predictor:
    """Return a recorded model's predictor; read it from disk if it is not in memory. Recorded models never change.

    Threads that want the same model wait for the first of them, which reads it.
    """
    predictor = loaded_predictor(settings, model_id)
    if predictor is not None:
        return predictor
    key = settings, model_id
    with _lock:
        if key in _predictors:  # since the look before
            return _predictors[key]
        loading, is_first = _loading.get(key), key not in _loading
        if loading is None:
            loading = _loading[key] = Future()
    if is_first:
        _load(key, loading)
    return loading.result()


def _load(key: tuple[Settings, str], loading: Future[Predictor]) -> None:
    try:
        predictor = Predictor(load_model(*key))
    except BaseException as error:
        with _lock:
            del _loading[key]
        loading.set_exception(error)
    else:
        with _lock:
            del _loading[key]
            _predictors[key] = predictor
            while len(_predictors) > _MOST:
                del _predictors[next(iter(_predictors))]
        loading.set_result(predictor)


def loaded_predictor(settings: Settings, model_id: str) -> Predictor | None:
    """Return the predictor if it is in memory and the model's files have not been deleted, else None."""
    key = settings, model_id
    with _lock:
        predictor = _predictors.pop(key, None)
        if predictor is None or not (settings.models / model_id).exists():
            return None
        _predictors[key] = predictor
    return predictor
