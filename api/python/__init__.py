"""Linear support vector machines on data larger than memory, from Python. The README beside this file says how.

StreamSVC, StreamSVR   estimators as scikit-learn has them, which they need: pip install 'streamsvm[sklearn]'
load                   a model file as a fitted estimator, without the service
Client                 datasets, jobs and models of a service
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsvm.classifier import StreamSVC
    from streamsvm.errors import InputWarning, InvalidInput, SlowerTraining, TrainingError, TrainingFailed
    from streamsvm.loading import load
    from streamsvm.regressor import StreamSVR
    from streamsvm.service.remote.client import Client

__all__ = [
    "Client", "InputWarning", "InvalidInput", "SlowerTraining", "StreamSVC", "StreamSVR", "TrainingError",
    "TrainingFailed", "load",
]  # fmt: skip

# Imported when they are asked for: nobody waits for, or holds in memory, what is not used.
_HOMES = {
    "Client": "streamsvm.service.remote.client",
    "InputWarning": "streamsvm.errors",
    "InvalidInput": "streamsvm.errors",
    "SlowerTraining": "streamsvm.errors",
    "StreamSVC": "streamsvm.classifier",
    "StreamSVR": "streamsvm.regressor",
    "TrainingError": "streamsvm.errors",
    "TrainingFailed": "streamsvm.errors",
    "load": "streamsvm.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        hint = f"{name} needs scikit-learn: pip install 'streamsvm[sklearn]'"
        raise ModuleNotFoundError(hint, name=error.name) from error


def __dir__() -> list[str]:
    return __all__
