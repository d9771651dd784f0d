"""How a model is shown: a plain dictionary, as the interface documents it."""

from typing import Any

from streamsvm.service.datasets.views import input_view
from streamsvm.storage.models.model_head import ModelHead

_ABOUT = ("dataset", "spec", "converged", "stop_reason", "passes", "certificate", "heaviest")


def model_view(record: dict[str, Any], model: ModelHead) -> dict[str, Any]:
    """A model and where it comes from."""
    return {
        **record,
        "features": model.n_features,
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        "maps": list(model.maps),
        "kernel": "linear" if model.n_vectors is None else "rbf",
        "gamma": model.gamma,
        "support_vectors": model.n_vectors,
        "probability": model.probability,
        "input": model.about.get("input") and input_view(model.about["input"]),
        **{key: model.about.get(key) for key in _ABOUT},
    }
