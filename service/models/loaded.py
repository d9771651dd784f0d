"""Models in memory, ready to be applied: the last few that were asked for."""

from threading import Lock

from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import load_model
from streamsvm.service.settings import Settings

_MOST = 4
_lock = Lock()
_predictors: dict[tuple[Settings, str], Predictor] = {}  # the last one asked for is the last


def load_predictor(settings: Settings, model_id: str) -> Predictor:
    """The predictor of a recorded model, which never changes; read from disk unless it is in memory."""
    predictor = loaded_predictor(settings, model_id) or Predictor(load_model(settings, model_id))
    with _lock:
        _predictors[settings, model_id] = predictor
        while len(_predictors) > _MOST:
            del _predictors[next(iter(_predictors))]
    return predictor


def loaded_predictor(settings: Settings, model_id: str) -> Predictor | None:
    """The predictor of a model that is in memory, and whose files have not been deleted."""
    key = settings, model_id
    with _lock:
        predictor = _predictors.pop(key, None)
        if predictor is None or not (settings.models / model_id).exists():
            return None
        _predictors[key] = predictor
    return predictor
