"""The head of a model: labels, features and options, which are read quickly, without the weights."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.maps import LISTED
from streamsvm.storage.files.arrays import load_arrays, read_header
from streamsvm.storage.models.model_file import TRAIN_AGAIN, VECTORS, WEIGHTS, Label, Model, read_record


@dataclass(frozen=True)
class ModelHead:
    """A model without its arrays. Fields not listed here are those of `Model`.

    n_features   features of the rows that the model takes, numbered from `index_base` on
    probability  "sigmoid" or "logistic": how decision values become probabilities; None: the model gives none
    maps         name and options of each feature map that the job asked for
    is_listed    whether the model has weights only of features that it lists, because features are far apart
    gamma, n_vectors  kernel width and number of support vectors of a kernel machine; None for a linear model
    """

    labels: tuple[Label, ...]
    index_base: int
    bias: float | None
    about: Mapping[str, Any]
    n_features: int
    probability: str | None
    maps: tuple[dict[str, Any], ...]
    is_listed: bool = False
    gamma: float | None = None
    n_vectors: int | None = None


def head_of(model: Model) -> ModelHead:
    """The head of a model in memory."""
    return ModelHead(
        labels=model.labels,
        index_base=model.index_base,
        bias=model.bias,
        about=model.about,
        n_features=model.n_features,
        probability=_probability(model.sigmoid, model.labels, model.about),
        maps=() if model.maps is None else _asked_for(model.maps.document),
        is_listed=model.maps is not None and model.maps.listed is not None,
        gamma=None if model.vectors is None else model.vectors.gamma,
        n_vectors=None if model.vectors is None else len(model.vectors),
    )


def read_head(directory: Path) -> ModelHead:
    """Read the head of a model on disk. Raises CorruptData or UnknownVersion."""
    content = read_record(directory)
    labels, about = tuple(content["labels"]), content["about"]
    machine: dict[str, Any] = {}
    try:
        with (directory / WEIGHTS).open("rb") as file:
            width = read_header(file)[0][-1]
        if "vectors_checksum" in content:
            arrays = load_arrays(directory / VECTORS, "gamma", "width")
            machine = {"gamma": float(arrays["gamma"]), "n_vectors": width}
            width = int(arrays["width"]) - content["index_base"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptData("a file of the model is missing", TRAIN_AGAIN) from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CorruptData("a file of the model is damaged", TRAIN_AGAIN) from error
    if "maps" in content:
        width = content["maps"]["width"] - content["index_base"]
    return ModelHead(
        labels=labels,
        index_base=content["index_base"],
        bias=content["bias"],
        about=about,
        n_features=width,
        probability=_probability(content.get("sigmoid"), labels, about),
        maps=_asked_for(content["maps"]) if "maps" in content else (),
        is_listed="maps" in content and any(each["name"] == LISTED for each in content["maps"]["maps"]),
        **machine,
    )


def _probability(sigmoid: Any, labels: tuple[Label, ...], about: Mapping[str, Any]) -> str | None:
    if sigmoid is not None:
        return "sigmoid"
    return "logistic" if labels and about.get("loss") == "logistic" else None


def _asked_for(maps: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """All maps but the `Listed` one, which no job asks for."""
    return tuple(each for each in maps["maps"] if each["name"] != LISTED)
