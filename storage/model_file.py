"""A trained model on disk: a directory of model.json and w.npy, published whole and never changed."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storage.csr import Array
from storage.durable import publish
from storage.errors import CorruptData, UnknownVersion

VERSION = 1


@dataclass(frozen=True)
class Model:
    """A linear model: the decision value of a row x is <w, x> + bias * w_bias.

    w           (n_features,) float64; w[0] belongs to the feature numbered `index_base` in the input
    labels      (positive, negative): a decision value > 0 means the first
    bias        value of the constant feature, None if trained without; w_bias is its weight
    about       where it comes from: solver, C, loss, dataset, job, certificate ...
    """

    w: Array
    labels: tuple[float, float]
    index_base: int
    bias: float | None = None
    w_bias: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def intercept(self) -> float:
        """What the constant feature adds to every decision value."""
        return self.w_bias * self.bias if self.bias is not None else 0.0


def write_model(final: Path, model: Model) -> None:
    """Publish the model as directory `final`, which must not exist."""
    staged = final.with_name(f".{final.name}.staged")
    staged.mkdir()
    np.save(staged / "w.npy", model.w)
    content = {
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        "w_bias": model.w_bias,
        "about": dict(model.about),
        "w_checksum": zlib.crc32(model.w.tobytes()),
    }
    document = {"version": VERSION, "checksum": _checksum(content), "model": content}
    (staged / "model.json").write_text(json.dumps(document, indent=1))
    publish(staged, final)


def read_model(directory: Path) -> Model:
    """The model, checked; raises CorruptData or UnknownVersion."""
    document = json.loads((directory / "model.json").read_bytes())
    if document.get("version") != VERSION:
        raise UnknownVersion(f"model version {document.get('version')}, this program reads {VERSION}")
    content = document["model"]
    w = np.load(directory / "w.npy", allow_pickle=False)
    if _checksum(content) != document["checksum"] or zlib.crc32(w.tobytes()) != content["w_checksum"]:
        raise CorruptData("the model has a wrong checksum", "The model was damaged on disk: train it again.")
    positive, negative = content["labels"]
    return Model(w, (positive, negative), content["index_base"], content["bias"], content["w_bias"], content["about"])


def _checksum(content: dict) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
