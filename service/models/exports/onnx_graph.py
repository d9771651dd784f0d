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

A kernel machine is made of plain operators in float64: SVMClassifier and SVMRegressor of ai.onnx.ml hold support
vectors, coefficients and gamma as float32, and every vector densely. Here the graph stores the vectors sparsely; a
runtime makes the dense matrix Z (features that occur in a vector, vectors) once, when it loads the graph.

    x_used = X[:, used]        squares = max(|x|^2 + |z_s|^2 - 2 x_used Z, 0)        products = exp(-gamma squares) w

The package onnx is needed. Its messages hold a model in one piece: 2 GiB at most, and three times its size of memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

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
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

USED, PLACES, STORED = "used", "places", "values"
HEAD = "streamsvm"  # name of the metadata
PIECE_BYTES = 1 << 19
VALUES = "decision_values"


def products_of(model: Model) -> tuple[list[Any], list[Any]]:
    """Make the nodes and constants of a kernel machine that compute `products`, (n, n_values), from X."""
    from onnx import helper, numpy_helper  # noqa: PLC0415 - not every installation has it

    vectors = model.vectors
    assert vectors is not None
    used, row = np.unique(vectors.indices, return_inverse=True)
    vector = np.repeat(np.arange(len(vectors)), np.diff(vectors.indptr))
    norms = np.bincount(vector, vectors.values.astype(np.float64) ** 2, len(vectors)).astype(np.float64)
    arrays = {
        USED: used.astype(np.int64) - model.index_base,
        PLACES: np.stack([row, vector], axis=1).astype(np.int64),
        STORED: vectors.values,
        "shape": np.array([len(used), len(vectors)]),
        "norms": norms,
        "two": np.array(2.0),
        "nothing": np.zeros(1),
        "minus_gamma": np.array(-vectors.gamma),
        "columns": np.array([1]),
    }
    double = helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))
    zero = helper.make_tensor("zero_value", double, [1], [0.0])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["empty"], value=zero),
        helper.make_node("Cast", [STORED], ["wide_values"], to=double),
        helper.make_node("ScatterND", ["empty", PLACES, "wide_values"], ["Z"]),
        helper.make_node("Gather", ["X", USED], ["x_used"], axis=1),
        helper.make_node("MatMul", ["x_used", "Z"], ["inner"]),
        helper.make_node("Mul", ["inner", "two"], ["twice"]),
        helper.make_node("Mul", ["X", "X"], ["X_squared"]),
        helper.make_node("ReduceSum", ["X_squared", "columns"], ["x_norms"]),
        helper.make_node("Add", ["x_norms", "norms"], ["both_norms"]),
        helper.make_node("Sub", ["both_norms", "twice"], ["differences"]),
        helper.make_node("Max", ["differences", "nothing"], ["squares"]),
        helper.make_node("Mul", ["squares", "minus_gamma"], ["exponents"]),
        helper.make_node("Exp", ["exponents"], ["kernel_values"]),
        helper.make_node("MatMul", ["kernel_values", "w"], ["products"]),
    ]
    return nodes, [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays.items()]


def arrays_of(constants: Mapping[str, Array]) -> list[Array]:
    """Return indptr, columns and values of a graph's support vectors. Raises ModelFormatError if they are wrong."""
    try:
        count = len(constants["norms"])
        row, vector = constants[PLACES].T
        if vector.max(initial=0) >= max(1, count):  # bincount would take memory for a large number
            raise ValueError
        indptr = np.concatenate([[0], np.cumsum(np.bincount(vector, minlength=count))]).astype(INDPTR)
        return [indptr, constants[USED][row].astype(INDEX), constants[STORED].astype(VALUE)]
    except (KeyError, IndexError, ValueError, TypeError, OverflowError):
        raise ModelFormatError("the graph lacks a constant of a kernel machine, or has a wrong one") from None


@dataclass(frozen=True)
class GraphOutput:
    """An output of a graph: `value` describes it, nodes and constants compute it from the decision values."""

    value: Any
    nodes: list[Any]
    constants: list[Any]


def order_of(model: Model) -> list[int] | None:
    """Return the positions of the labels in ascending order, as scikit-learn's `classes_`; None if labels ascend."""
    places = list(range(len(model.labels)))
    order = sorted(places, key=lambda place: model.labels[place])
    return None if order == places else order


def outputs_of(model: Model, values: str, as_before: bool = False) -> list[GraphOutput]:
    """Make the outputs: labels, except in regression, and probabilities, if the model has them.

    values     name of the decision values in the order of the model's labels
    as_before  write them as older versions did: numbers as float64, probabilities in the order of the model's labels
    """
    outputs = [_labels(model, values, as_before)] if model.labels else []
    return outputs if model.probability is None else [*outputs, _probabilities(model, values, as_before)]


def in_order(columns: str, name: str) -> list[Any]:
    """Make a node that takes columns in the order of the model's labels, and orders them by ascending label."""
    from onnx import helper  # noqa: PLC0415 - not every installation has it

    return [helper.make_node("Gather", [columns, "order"], [name], axis=1)]


def _labels(model: Model, values: str, as_before: bool) -> GraphOutput:
    """Make the output of labels: that of the largest decision value; of two labels, the first if the value is > 0."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    labels = np.array(model.labels)
    if labels.dtype.kind == "U":
        kind = TensorProto.STRING
    else:
        is_whole = not as_before and bool(np.all((labels == np.rint(labels)) & (np.abs(labels) < 2**63)))
        labels, kind = (labels.astype(np.int64), TensorProto.INT64) if is_whole else (labels, TensorProto.DOUBLE)
    classes = helper.make_tensor("classes", kind, [len(labels)], labels)
    look_up = helper.make_node("Gather", ["classes", "class"], ["labels"])
    value = helper.make_tensor_value_info("labels", kind, ["n"])
    if model.is_multiclass:
        largest = helper.make_node("ArgMax", [values], ["class"], axis=1, keepdims=0)
        return GraphOutput(value, [largest, look_up], [classes])
    nodes = [
        helper.make_node("Greater", [values, "zero"], ["is_first"]),
        helper.make_node("Where", ["is_first", "first", "second"], ["column"]),
        helper.make_node("Squeeze", ["column", "second"], ["class"]),  # axis 1
        look_up,
    ]
    return GraphOutput(
        value, nodes, [classes, *_constants(zero=np.zeros(1), first=np.array([0]), second=np.array([1]))]
    )


def _probabilities(model: Model, values: str, as_before: bool) -> GraphOutput:
    """Make the output of probabilities (see storage/models/probability.py), in ascending order of the labels."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    n_classes, order = len(model.labels), None if as_before else order_of(model)
    A, B = np.array(model.probability).T
    value = helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["n", n_classes])
    rising = [
        helper.make_node("Mul", [values, "minus_A"], ["scaled"]),
        helper.make_node("Add", ["scaled", "minus_B"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["shares"]),
    ]
    constants = _constants(minus_A=-A, minus_B=-B)
    if not model.is_multiclass:
        both = ["shares", "others"] if order is None else ["others", "shares"]
        nodes = [
            helper.make_node("Neg", ["z"], ["minus_z"]),
            helper.make_node("Sigmoid", ["minus_z"], ["others"]),
            helper.make_node("Concat", both, ["probabilities"], axis=1),
        ]
        return GraphOutput(value, [*rising, *nodes], constants)
    name = "probabilities" if order is None else "own_probabilities"
    nodes = [
        helper.make_node("ReduceSum", ["shares", "axis"], ["total"]),
        helper.make_node("Greater", ["total", "none"], ["says_something"]),
        helper.make_node("Div", ["shares", "total"], ["normalised"]),
        helper.make_node("Where", ["says_something", "normalised", "even"], [name]),
        *([] if order is None else in_order(name, "probabilities")),
    ]
    more = _constants(axis=np.array([1]), none=np.zeros(1), even=np.full(1, 1.0 / n_classes))
    return GraphOutput(value, [*rising, *nodes], constants + more)


def _constants(**arrays: Any) -> list[Any]:
    from onnx import numpy_helper  # noqa: PLC0415

    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


OPSET, IR_VERSION = 13, 8  # read by every onnxruntime since 1.10
FORMAT, KERNEL_FORMAT = "streamsvm-linear", "streamsvm-kernel"
_PLAIN, _SEVERAL, _MAPS = 1, 2, 3  # versions of the head


def write(model: Model) -> Iterator[bytes]:
    """Yield the file in pieces under 1 MiB, the same bytes for the same model.

    The call raises ModelFormatError if a weight is not finite, there are too many, or the package onnx is missing.
    """
    model = folded(model, "ONNX")
    size, vectors = checked(model).w.size, model.vectors
    if vectors is not None:  # which the graph holds, and a runtime that loads it densely, too
        size += 3 * len(vectors.values) + len(np.unique(vectors.indices)) * len(vectors)
    if size > MOST_ONNX_WEIGHTS:
        raise ModelFormatError(f"an ONNX file holds at most {MOST_ONNX_WEIGHTS} weights", "take the model as npz")
    data = _graph(model).SerializeToString(deterministic=True)
    return (data[begin : begin + PIECE_BYTES] for begin in range(0, len(data), PIECE_BYTES))


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
