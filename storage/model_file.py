"""A trained model on disk: a directory of model.json and w.npy, published whole and never changed."""

import io
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storage.csr import Array
from storage.document import pack, unpack
from storage.durable import publish
from storage.errors import CorruptData

VERSION = 1
_RECORD, _WEIGHTS = "model.json", "w.npy"
_TRAIN_AGAIN = "The model was damaged on disk: train it again."


@dataclass(frozen=True)
class Model:
    """A linear model: the decision value of a row x is <w, x> + bias * w_bias; in regression it is the prediction.

    w           (n_features,) float64; w[0] belongs to the feature numbered `index_base` in the input
    labels      (positive, negative): a decision value > 0 means the first; () in regression
    bias        value of the constant feature, None if trained without; w_bias is its weight
    about       where it comes from: solver, C, loss, dataset, job, certificate ...
    """

    w: Array
    labels: tuple[float, ...]
    index_base: int
    bias: float | None = None
    w_bias: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """It predicts numbers, not labels."""
        return not self.labels

    @property
    def intercept(self) -> float:
        """What the constant feature adds to every decision value."""
        return self.w_bias * self.bias if self.bias is not None else 0.0


def write_model(final: Path, model: Model) -> None:
    """Publish the model as directory `final`, which must not exist."""
    staged = final.with_name(f".{final.name}.staged")
    # Left by a process that was killed while writing.
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    try:
        # By way of memory: into a file numpy writes in C, and does not notice that the disk is full when it closes it.
        weights = io.BytesIO()
        np.save(weights, model.w)
        (staged / _WEIGHTS).write_bytes(weights.getbuffer())
        content = {
            "labels": model.labels,
            "index_base": model.index_base,
            "bias": model.bias,
            "w_bias": model.w_bias,
            "about": dict(model.about),
            "w_checksum": zlib.crc32(weights.getbuffer()),
        }
        (staged / _RECORD).write_bytes(pack(content, VERSION))
        publish(staged, final)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def read_model(directory: Path) -> Model:
    """The model, checked; raises CorruptData or UnknownVersion."""
    try:
        content = unpack((directory / _RECORD).read_bytes(), VERSION, "model", _TRAIN_AGAIN)
        weights = (directory / _WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        raise CorruptData("a file of the model is missing", _TRAIN_AGAIN) from error
    # Of the whole file: its header says how the bytes are to be read.
    if zlib.crc32(weights) != content["w_checksum"]:
        raise CorruptData("the weights have a wrong checksum", _TRAIN_AGAIN)
    return Model(
        w=np.load(io.BytesIO(weights), allow_pickle=False),
        labels=tuple(content["labels"]),
        index_base=content["index_base"],
        bias=content["bias"],
        w_bias=content["w_bias"],
        about=content["about"],
    )
