"""A model as an ONNX graph: decision_values = X @ w + intercept, all in float64.

    X                float64 (n, n_features), column j is the feature numbered j + index_base in the input
    decision_values  float64 (n, 1), above 0 for the first of the model's labels

The labels, and where the model comes from, are in the graph's metadata, as the JSON object that heads a model in JSON.
Needs the package onnx. Its messages hold a model in one piece: three times its size of memory, and 2 GiB at most.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from service.exports.errors import ModelFormatError, checked
from service.exports.json_text import head_of, parse_object, with_weights
from storage.model_file import Model

HEAD = "streamsvm"  # name of the metadata
OPSET, IR_VERSION = 13, 8  # read by every onnxruntime since 1.10
PIECE_BYTES = 1 << 19
MOST_FEATURES = (1 << 27) + 1


def write(model: Model) -> Iterator[bytes]:
    """The file in pieces under 1 MiB, the same bytes for the same model.

    ModelFormatError, before the first, if a weight is not finite, there are too many, or there is no package onnx.
    """
    if len(checked(model).w) > MOST_FEATURES:
        raise ModelFormatError(f"an ONNX file holds at most {MOST_FEATURES} weights", "take the model as npz or json")
    return _stream(_graph(model).SerializeToString(deterministic=True))


def _stream(data: bytes) -> Iterator[bytes]:
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES]


def read(file: BinaryIO) -> Model:
    """The model of a file that `write` made; ModelFormatError for any other graph, or damage that shows."""
    onnx = _package()
    try:
        graph = onnx.load_model_from_string(file.read())
        heads = {entry.key: entry.value for entry in graph.metadata_props}
        w = onnx.numpy_helper.to_array(graph.graph.initializer[0]).reshape(-1)
    except Exception as error:  # protobuf and numpy raise kinds of their own on damaged bytes
        raise ModelFormatError("this is not a whole ONNX file of a linear model") from error
    document = parse_object(heads.get(HEAD, ""))
    if w.dtype != np.float64:
        raise ModelFormatError("the weights are not float64")
    model = with_weights(document, w)
    if _graph(model) != graph:
        raise ModelFormatError("the graph is not the one this program writes", "take the model as npz or json")
    return model


def _graph(model: Model) -> Any:
    onnx = _package()
    tensor, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "w"], ["products"]),
        onnx.helper.make_node("Add", ["products", "intercept"], ["decision_values"]),
    ]
    constants = [
        onnx.numpy_helper.from_array(model.w.reshape(-1, 1), "w"),
        onnx.numpy_helper.from_array(np.array([model.intercept]), "intercept"),
    ]
    X, decision_values = tensor("X", number, ["n", len(model.w)]), tensor("decision_values", number, ["n", 1])
    graph = onnx.helper.make_graph(nodes, "linear", [X], [decision_values], constants)
    opset = onnx.helper.make_opsetid("", OPSET)
    made = onnx.helper.make_model(graph, producer_name=HEAD, ir_version=IR_VERSION, opset_imports=[opset])
    onnx.helper.set_model_props(made, {HEAD: head_of(model)})
    return made


def _package() -> Any:
    """The package onnx, which not every installation has."""
    try:
        import onnx  # noqa: PLC0415
    except ImportError:
        raise ModelFormatError("the package onnx is not installed", "pip install 'streamsvm[onnx]'") from None
    return onnx
