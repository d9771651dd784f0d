"""The formats in which a model leaves the service and comes back; each is a module with `write` and `read`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO

from service.exports import json_text, liblinear_text, npz, onnx_graph
from service.exports.errors import ModelFormatError
from storage.model_file import Model

__all__ = ["MODEL_FORMATS", "ModelFormat", "ModelFormatError", "format_of"]


@dataclass(frozen=True)
class ModelFormat:
    """How a model is written to and read from one kind of file. Weights come back exactly, to the bit.

    suffix      how the names of such files end
    media_type  what HTTP calls it
    write       the file in pieces under 1 MiB; ModelFormatError, at the call, for a model the format cannot hold
    read        the model of a file, which must be able to seek; ModelFormatError if it is damaged or of another kind
    """

    suffix: str
    media_type: str
    write: Callable[[Model], Iterator[bytes]]
    read: Callable[[BinaryIO], Model]


MODEL_FORMATS: dict[str, ModelFormat] = {
    "liblinear": ModelFormat(".model", "text/plain; charset=us-ascii", liblinear_text.write, liblinear_text.read),
    "npz": ModelFormat(".npz", "application/zip", npz.write, npz.read),
    "json": ModelFormat(".json", "application/json", json_text.write, json_text.read),
    "onnx": ModelFormat(".onnx", "application/octet-stream", onnx_graph.write, onnx_graph.read),
}


def format_of(path: str | os.PathLike[str]) -> str:
    """The key in MODEL_FORMATS for a file's name, by its ending; liblinear if it is none of theirs."""
    ending = PurePath(path).suffix.lower()
    return next((name for name, kind in MODEL_FORMATS.items() if kind.suffix == ending), "liblinear")
