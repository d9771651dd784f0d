"""What a model and a dataset say of how rows were made."""

from collections.abc import Mapping
from typing import Any

# Where in a table the documents were changes nothing.
_ASIDE = {"text_column"}


def differing(model: Mapping[str, Any] | None, dataset: Mapping[str, Any] | None) -> list[str]:
    """In what the two inputs (Manifest.input) differ, if one is of documents, in words; [] if either is not known."""
    if model is None or dataset is None or "text" not in (model["format"], dataset["format"]):
        return []
    names = ["format"] if model["format"] != dataset["format"] else sorted({*model, *dataset} - _ASIDE)
    return [
        f"{name} is {_shown(dataset.get(name))}, of the model {_shown(model.get(name))}"
        for name in names
        if model.get(name) != dataset.get(name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
