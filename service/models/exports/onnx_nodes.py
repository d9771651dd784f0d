"""Makes the nodes of ONNX graphs: a kernel machine's decision values, labels and probabilities. Needs the package onnx.

A kernel machine is made of plain operators in float64: SVMClassifier and SVMRegressor of ai.onnx.ml hold support
vectors, coefficients and gamma as float32, and every vector densely. Here the graph stores the vectors sparsely; a
runtime makes the dense matrix Z (features that occur in a vector, vectors) once, when it loads the graph.

    x_used = X[:, used]        squares = max(|x|^2 + |z_s|^2 - 2 x_used Z, 0)        products = exp(-gamma squares) w
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.service.models.exports.parts import ModelFormatError
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

USED, PLACES, VALUES = "used", "places", "values"


def size_of(model: Model) -> int:
    """Return how many numbers besides w the graph of a kernel machine, or a runtime that loads it, holds; 0: linear."""
    vectors = model.vectors
    return 0 if vectors is None else 3 * len(vectors.values) + len(np.unique(vectors.indices)) * len(vectors)


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
        VALUES: vectors.values,
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
        helper.make_node("Cast", [VALUES], ["wide_values"], to=double),
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
        return [indptr, constants[USED][row].astype(INDEX), constants[VALUES].astype(VALUE)]
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
