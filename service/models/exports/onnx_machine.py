"""Decision values of a kernel machine in an ONNX graph, and the support vectors back out of it.

All in float64, of plain operators: SVMClassifier and SVMRegressor of ai.onnx.ml hold support vectors, coefficients and
gamma as float32, and all features of every vector. The vectors stand here by their values alone. A runtime puts them
into a matrix Z (features that a vector has, vectors) once, when it loads the graph.

    x_used = X[:, used]        squares = max(|x|^2 + |z_s|^2 - 2 x_used Z, 0)        products = exp(-gamma squares) w
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamsvm.service.models.exports.errors import ModelFormatError
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

USED, PLACES, VALUES = "used", "places", "values"


def size_of(model: Model) -> int:
    """Numbers that a graph of this model holds, and its runtime."""
    vectors = model.vectors
    return 0 if vectors is None else 3 * len(vectors.values) + len(np.unique(vectors.indices)) * len(vectors)


def products_of(model: Model) -> tuple[list[Any], list[Any]]:
    """Nodes and constants that make `products`, (n, n_values), of X."""
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


def arrays_of(constants: Mapping[str, Array], index_base: Any) -> list[Array]:
    """indptr, indices and values of the support vectors in a graph; ModelFormatError if its constants are others."""
    try:
        count = len(constants["norms"])
        row, vector = constants[PLACES].T
        if vector.max(initial=0) >= max(1, count):  # to be counted it would take memory
            raise ValueError
        indptr = np.concatenate([[0], np.cumsum(np.bincount(vector, minlength=count))]).astype(INDPTR)
        return [indptr, (constants[USED][row] + index_base).astype(INDEX), constants[VALUES].astype(VALUE)]
    except (KeyError, IndexError, ValueError, TypeError, OverflowError):
        raise ModelFormatError("the graph has not all that a kernel machine has") from None
