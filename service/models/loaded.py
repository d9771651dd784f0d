"""Keeps the predictors of the most recently used models in memory."""

from threading import Lock

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import load_model
from streamsvm.service.settings import Settings

_MOST = 4
_lock = Lock()
_predictors: dict[tuple[Settings, str], Predictor] = {}  # the least recently used comes first


def load_predictor(settings: Settings, model_id: str) -> Predictor:
    """Return a recorded model's predictor; read it from disk if it is not in memory. Recorded models never change."""
    predictor = loaded_predictor(settings, model_id) or Predictor(load_model(settings, model_id))
    with _lock:
        _predictors[settings, model_id] = predictor
        while len(_predictors) > _MOST:
            del _predictors[next(iter(_predictors))]
    return predictor


def loaded_predictor(settings: Settings, model_id: str) -> Predictor | None:
    """Return the predictor if it is in memory and the model's files have not been deleted, else None."""
    key = settings, model_id
    with _lock:
        predictor = _predictors.pop(key, None)
        if predictor is None or not (settings.models / model_id).exists():
            return None
        _predictors[key] = predictor
    return predictor
