"""The format onnx: a graph for decision_values = X @ w + intercept, or a kernel machine's, all in float64.

    X                float64 (n, n_features), column j is the feature numbered j + index_base in the input
    decision_values  float64 (n, 1), above 0 for the model's first label; (n, n_classes) if there are more than two
    labels           (n,) int64, string, or float64 if a label is not whole; regression has none
    probabilities    float64 (n, n_classes), if the model has them

Columns are in ascending order of the labels, as in scikit-learn's `classes_` and sklearn-onnx. The graph's metadata
hold the head of the model: a JSON object of all but its weights and support vectors. It lists the labels in the model's
order, in which a tie goes to the first label.

    {"format": "streamsvm-linear", "version": 1, "labels": [1.0, -1.0], "index_base": 1, "n_features": 3,
     "bias": 1.0, "w_bias": 0.25, "intercept": 0.25, "about": {...}}

Version 2 adds: labels may be texts, `intercept` and `w_bias` are lists with an entry for each of more than two classes,
and `sigmoid` is null or has a pair [A, B] for each decision value. A model that needs none of this has version 1.
Version 3 adds "maps", the names and options of feature maps. A kernel machine has all fields of version 2, with
"format" "streamsvm-kernel", "version" 1 and "gamma".

The package onnx is needed. Its messages hold a model in one piece: 2 GiB at most, and three times its size of memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from streamsvm.service.models.exports.onnx_nodes import (
    USED,
    arrays_of,
    in_order,
    order_of,
    outputs_of,
    products_of,
    size_of,
)
from streamsvm.service.models.exports.parts import (
    ModelFormatError,
    checked,
    columns_of,
    folded,
    parse_object,
    plain,
    read_maps,
)
from streamsvm.service.models.formats import MOST_ONNX_WEIGHTS
from streamsvm.storage.features.maps import LISTED
from streamsvm.storage.models.model_file import Model, tuples
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import Array

HEAD = "streamsvm"  # name of the metadata
OPSET, IR_VERSION = 13, 8  # read by every onnxruntime since 1.10
PIECE_BYTES = 1 << 19
VALUES = "decision_values"
FORMAT, KERNEL_FORMAT = "streamsvm-linear", "streamsvm-kernel"
_PLAIN, _SEVERAL, _MAPS = 1, 2, 3  # versions of the head


def write(model: Model) -> Iterator[bytes]:
    """Yield the file in pieces under 1 MiB, the same bytes for the same model.

    The call raises ModelFormatError if a weight is not finite, there are too many, or the package onnx is missing.
    """
    model = folded(model, "ONNX")
    if checked(model).w.size + size_of(model) > MOST_ONNX_WEIGHTS:
        raise ModelFormatError(f"an ONNX file holds at most {MOST_ONNX_WEIGHTS} weights", "take the model as npz")
    return _stream(_graph(model).SerializeToString(deterministic=True))


def _stream(data: bytes) -> Iterator[bytes]:
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES]


def read(file: BinaryIO) -> Model:
    """Read a file that `write` made. Raises ModelFormatError for any other graph, or for a damaged file."""
    onnx = onnx_package()
    try:
        graph = onnx.load_model_from_string(file.read())
        heads = {entry.key: entry.value for entry in graph.metadata_props}
        columns, *others = map(onnx.numpy_helper.to_array, graph.graph.initializer)
        constants = dict(zip((each.name for each in graph.graph.initializer[1:]), others, strict=True))
    except Exception as error:  # protobuf and numpy raise kinds of their own on damaged bytes
        raise ModelFormatError("this is not a whole ONNX file of a model") from error
    if columns.dtype != np.float64:
        raise ModelFormatError("the weights are not float64")
    arrays = arrays_of(constants) if USED in constants else None
    fitted = {"0_features": constants[LISTED]} if LISTED in constants else {}
    model = _with_weights(heads.get(HEAD, ""), columns, arrays, fitted)
    # Older files have probabilities in the model's own order; still older ones have decision values only.
    if graph not in (_graph(model), _graph(model, outputs_of(model, VALUES, as_before=True)), _graph(model, [])):
        raise ModelFormatError("the graph is not the one this program writes", "take the model as npz")
    return model


def _graph(model: Model, outputs: list[Any] | None = None) -> Any:
    """Make the graph of a model.

    outputs  outputs to add to the decision values, whose columns are then in the order of the model's labels; None: the
             outputs that this version writes
    """
    onnx, shape = onnx_package(), [model.n_features, len(np.atleast_2d(model.w))]
    value, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    is_linear, more = model.vectors is None, list[Any]()
    products = [onnx.helper.make_node("MatMul", ["X", "w"], ["products"])]
    if not is_linear:
        products, more = products_of(model)
    elif (places := columns_of(model)) is not None:
        products = [
            onnx.helper.make_node("Gather", ["X", LISTED], ["X_listed"], axis=1),
            onnx.helper.make_node("MatMul", ["X_listed", "w"], ["products"]),
        ]
        more = [onnx.numpy_helper.from_array(places, LISTED)]
    order = order_of(model) if outputs is None and model.is_multiclass else None
    values = VALUES if order is None else "own_values"
    nodes = [*products, onnx.helper.make_node("Add", ["products", "intercept"], [values])]
    constants = [
        onnx.numpy_helper.from_array(np.atleast_2d(model.w).T, "w"),
        onnx.numpy_helper.from_array(np.atleast_1d(model.intercept), "intercept"),
        *more,
    ]
    if order is not None:
        nodes += in_order(values, VALUES)
        constants.append(onnx.numpy_helper.from_array(np.array(order), "order"))
    described = [value(VALUES, number, ["n", shape[1]])]
    for output in outputs_of(model, values) if outputs is None else outputs:
        nodes += output.nodes
        constants += output.constants
        described.append(output.value)
    graph = onnx.helper.make_graph(
        nodes, "linear" if is_linear else "kernel", [value("X", number, ["n", shape[0]])], described, constants
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    file = onnx.helper.make_model(graph, producer_name=HEAD, ir_version=IR_VERSION, opset_imports=[opset])
    onnx.helper.set_model_props(file, {HEAD: _head_of(model)})
    return file


def _head_of(model: Model) -> str:
    """Write all of a model except its weights and support vectors as a JSON object."""
    head = {
        "format": FORMAT if model.vectors is None else KERNEL_FORMAT,
        "version": _version(model),
        "labels": [label if isinstance(label, str) else float(label) for label in model.labels],
        "index_base": model.index_base,
        "n_features": model.n_features,
        "bias": model.bias,
        "w_bias": model.w_bias,
        "intercept": np.asarray(model.intercept).tolist(),
        **({} if model.is_plain else {"sigmoid": model.sigmoid}),
        **({} if model.vectors is None else {"gamma": model.vectors.gamma}),
        **({} if model.maps is None else {"maps": model.maps.document}),
        "about": plain(model.about),
    }
    return json.dumps(head, allow_nan=False)


def _version(model: Model) -> int:
    if model.maps is not None:
        return _MAPS
    return _PLAIN if model.is_plain or model.vectors is not None else _SEVERAL


def _with_weights(head: str, w: Array, arrays: Sequence[Array] | None, fitted: Mapping[str, Array]) -> Model:
    """Make a model from its head and its weights.

    w       weights; of several classes (n, n_classes), else (n, 1)
    arrays  indptr, indices and values of the support vectors of a kernel machine
    fitted  arrays of the fitted feature maps, by name; feature numbers in them count from 0
    Raises ModelFormatError if `_head_of` writes another head for this model: then `head` is of another version, or
    contradicts the arrays.
    """
    document = parse_object(head)
    try:
        model = checked(_model(document, w, arrays, fitted))
        is_same = _head_of(model) == head
    except ModelFormatError:
        raise
    except Exception as error:  # fields of the head may have any type
        raise ModelFormatError("a field of the model is missing, or of another type") from error
    if not is_same:
        raise ModelFormatError("the model is of an unknown version, or its head contradicts its weights")
    return model


def _model(document: dict[str, Any], w: Array, arrays: Sequence[Array] | None, fitted: Mapping[str, Array]) -> Model:
    base, n_features = document["index_base"], document["n_features"]
    if type(base) is not int or type(n_features) is not int:
        raise TypeError
    vectors = maps = None
    if arrays is not None:
        indptr, columns, values = arrays
        vectors = SupportVectors(float(document["gamma"]), base + n_features, indptr, columns + base, values)
    if "maps" in document:
        maps = read_maps(document["maps"], {name: array + float(base) for name, array in fitted.items()})
    w = np.ascontiguousarray(w.T) if isinstance(document["intercept"], list) else w.reshape(-1)
    labels, w_bias, sigmoid = (tuples(document.get(name)) for name in ("labels", "w_bias", "sigmoid"))
    return Model(w, labels, base, document["bias"], w_bias, dict(document["about"]), sigmoid, vectors, maps)


def onnx_package() -> Any:
    """Import and return the package onnx. Raises ModelFormatError if it is not installed."""
    try:
        import onnx  # noqa: PLC0415
    except ImportError:
        raise ModelFormatError("the package onnx is not installed", "pip install 'streamsvm[onnx]'") from None
    return onnx
