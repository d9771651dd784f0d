"""What an ONNX graph makes of decision_values: labels and probabilities. Needs the package onnx."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from storage.model_file import Model


@dataclass(frozen=True)
class Output:
    """A part of a graph: `value` describes what its nodes and constants make of the decision values."""

    value: Any
    nodes: list[Any]
    constants: list[Any]


def outputs_of(model: Model) -> list[Output]:
    """Labels, but of regression, and probabilities, where there are any."""
    found = [_labels(model)] if model.labels else []
    return found if model.probability is None else [*found, _probabilities(model)]


def _labels(model: Model) -> Output:
    """The first of the largest decision values; of two classes the first only above 0."""
    from onnx import TensorProto, helper  # noqa: PLC0415 - not every installation has it

    kind = TensorProto.STRING if isinstance(model.labels[0], str) else TensorProto.DOUBLE
    classes = helper.make_tensor("classes", kind, [len(model.labels)], np.array(model.labels))
    look_up = helper.make_node("Gather", ["classes", "class"], ["labels"])
    value = helper.make_tensor_value_info("labels", kind, ["n"])
    if model.is_multiclass:
        largest = helper.make_node("ArgMax", ["decision_values"], ["class"], axis=1, keepdims=0)
        return Output(value, [largest, look_up], [classes])
    nodes = [
        helper.make_node("Greater", ["decision_values", "zero"], ["is_first"]),
        helper.make_node("Where", ["is_first", "first", "second"], ["column"]),
        helper.make_node("Squeeze", ["column", "second"], ["class"]),  # axis 1
        look_up,
    ]
    return Output(value, nodes, [classes, *_constants(zero=np.zeros(1), first=np.array([0]), second=np.array([1]))])


def _probabilities(model: Model) -> Output:
    """As storage.probability has it."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    n_classes = len(model.labels)
    A, B = np.array(model.probability).T
    value = helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["n", n_classes])
    rising = [
        helper.make_node("Mul", ["decision_values", "minus_A"], ["scaled"]),
        helper.make_node("Add", ["scaled", "minus_B"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["shares"]),
    ]
    constants = _constants(minus_A=-A, minus_B=-B)
    if not model.is_multiclass:
        nodes = [
            helper.make_node("Neg", ["z"], ["minus_z"]),
            helper.make_node("Sigmoid", ["minus_z"], ["others"]),
            helper.make_node("Concat", ["shares", "others"], ["probabilities"], axis=1),
        ]
        return Output(value, [*rising, *nodes], constants)
    nodes = [
        helper.make_node("ReduceSum", ["shares", "axis"], ["total"]),
        helper.make_node("Greater", ["total", "none"], ["says_something"]),
        helper.make_node("Div", ["shares", "total"], ["normalised"]),
        helper.make_node("Where", ["says_something", "normalised", "even"], ["probabilities"]),
    ]
    more = _constants(axis=np.array([1]), none=np.zeros(1), even=np.full(1, 1.0 / n_classes))
    return Output(value, [*rising, *nodes], constants + more)


def _constants(**arrays: Any) -> list[Any]:
    from onnx import numpy_helper  # noqa: PLC0415

    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]
