"""How a model is shown: a plain dictionary, as the interface documents it."""

from typing import Any

from service.datasets.views import input_view
from storage.model_file import Model

_ABOUT = ("dataset", "spec", "converged", "stop_reason", "passes", "certificate", "heaviest")


def model_view(record: dict[str, Any], model: Model) -> dict[str, Any]:
    """A model and where it comes from."""
    return {
        **record,
        "features": model.n_features,
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        "maps": [] if model.maps is None else model.maps.document["maps"],
        "kernel": "linear" if model.vectors is None else "rbf",
        "gamma": None if model.vectors is None else model.vectors.gamma,
        "support_vectors": None if model.vectors is None else len(model.vectors),
        "probability": model.probability and ("sigmoid" if model.sigmoid else "logistic"),
        "input": model.about.get("input") and input_view(model.about["input"]),
        **{key: model.about.get(key) for key in _ABOUT},
    }
