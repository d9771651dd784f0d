"""The view of a model: a plain dictionary, documented in api/README.md."""

from typing import Any

from streamsvm.service.datasets.views import input_view
from streamsvm.service.models.formats import formats_for
from streamsvm.storage.models.model_head import ModelHead

_ABOUT = ("dataset", "spec", "converged", "stop_reason", "passes", "certificate", "heaviest")


def model_view(record: dict[str, Any], model: ModelHead) -> dict[str, Any]:
    """Describe a model: its record, its head, and the formats that can hold it, the default of a download first."""
    has_kernel, maps = model.n_vectors is not None, [each["name"] for each in model.maps]
    return {
        **record,
        "features": model.n_features,
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        "maps": list(model.maps),
        "kernel": "rbf" if has_kernel else "linear",
        "gamma": model.gamma,
        "support_vectors": model.n_vectors,
        "probability": model.probability,
        "formats": formats_for(model.labels, has_kernel, maps, model.bias, model.is_listed),
        "input": model.about.get("input") and input_view(model.about["input"]),
        **{key: model.about.get(key) for key in _ABOUT},
    }
