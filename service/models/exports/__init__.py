"""The formats of model files. Each format is a module with `write` and `read`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from streamsvm.service.models.exports import liblinear_text, libsvm_text, npz, onnx_graph
from streamsvm.service.models.exports.parts import ModelFormatError
from streamsvm.service.models.formats import SUFFIXES
from streamsvm.storage.models.model_file import Model

__all__ = ["MODEL_FORMATS", "ModelFormat", "ModelFormatError"]


@dataclass(frozen=True)
class ModelFormat:
    """How a model is written to and read from one kind of file. Weights come back exactly, to the bit.

    suffix      ending of file names
    media_type  HTTP's Content-Type
    write       yields the file in pieces under 1 MiB; the call raises ModelFormatError if the format cannot hold the
                model
    read        reads a model from a seekable file; raises ModelFormatError if the file is damaged or of another kind
    """

    suffix: str
    media_type: str
    write: Callable[[Model], Iterator[bytes]]
    read: Callable[[BinaryIO], Model]


MODEL_FORMATS: dict[str, ModelFormat] = {
    "liblinear": ModelFormat(
        SUFFIXES["liblinear"], "text/plain; charset=us-ascii", liblinear_text.write, liblinear_text.read
    ),
    "libsvm": ModelFormat(SUFFIXES["libsvm"], "text/plain; charset=us-ascii", libsvm_text.write, libsvm_text.read),
    "npz": ModelFormat(SUFFIXES["npz"], "application/zip", npz.write, npz.read),
    "onnx": ModelFormat(SUFFIXES["onnx"], "application/octet-stream", onnx_graph.write, onnx_graph.read),
}
