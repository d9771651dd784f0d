"""Trains linear support vector machines on data larger than memory, from Python. The README beside explains it.

StreamSVC, StreamSVR   estimators of scikit-learn's kind, which need it: pip install 'streamsvm[sklearn]'
load                   reads a model file as a fitted estimator
Client                 speaks to a service: datasets, jobs and models
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsvm.classifier import StreamSVC
    from streamsvm.client import Client
    from streamsvm.errors import InputWarning, InvalidInput, SlowerTraining, TrainingError, TrainingFailed
    from streamsvm.loading import load
    from streamsvm.regressor import StreamSVR

__all__ = [
    "Client", "InputWarning", "InvalidInput", "SlowerTraining", "StreamSVC", "StreamSVR", "TrainingError",
    "TrainingFailed", "load",
]  # fmt: skip

# Each is imported when it is first used, which saves time and memory for the others.
_HOMES = {
    "Client": "streamsvm.client",
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
    if name == "__version__":
        return import_module("importlib.metadata").version("streamsvm")
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
