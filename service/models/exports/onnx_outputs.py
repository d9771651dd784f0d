"""What an ONNX graph makes of decision_values: labels and probabilities. Needs the package onnx."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.storage.models.model_file import Model


@dataclass(frozen=True)
class Output:
    """A part of a graph: `value` describes what its nodes and constants make of the decision values."""

    value: Any
    nodes: list[Any]
    constants: list[Any]


def order_of(model: Model) -> list[int] | None:
    """Places of the labels from the least to the largest, as scikit-learn has `classes_`; None if they stand so."""
    places = list(range(len(model.labels)))
    order = sorted(places, key=lambda place: model.labels[place])
    return None if order == places else order


def outputs_of(model: Model, values: str, as_before: bool = False) -> list[Output]:
    """Labels, but of regression, and probabilities, where there are any.

    values     what the decision values are called that stand in the order of the model's labels
    as_before  of files that older versions wrote: numbers as float64, probabilities in the order of the model's labels
    """
    found = [_labels(model, values, as_before)] if model.labels else []
    return found if model.probability is None else [*found, _probabilities(model, values, as_before)]


def in_order(given: str, name: str) -> list[Any]:
    """The node that puts columns that stand as the model's labels do in the order of labels that ascend."""
    from onnx import helper  # noqa: PLC0415 - not every installation has it

    return [helper.make_node("Gather", [given, "order"], [name], axis=1)]


def _labels(model: Model, values: str, as_before: bool) -> Output:
    """The first of the largest decision values; of two classes the first only above 0."""
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
        return Output(value, [largest, look_up], [classes])
    nodes = [
        helper.make_node("Greater", [values, "zero"], ["is_first"]),
        helper.make_node("Where", ["is_first", "first", "second"], ["column"]),
        helper.make_node("Squeeze", ["column", "second"], ["class"]),  # axis 1
        look_up,
    ]
    return Output(value, nodes, [classes, *_constants(zero=np.zeros(1), first=np.array([0]), second=np.array([1]))])


def _probabilities(model: Model, values: str, as_before: bool) -> Output:
    """Probabilities as storage.models.probability defines them, in ascending order of labels."""
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
        return Output(value, [*rising, *nodes], constants)
    name = "probabilities" if order is None else "own_probabilities"
    nodes = [
        helper.make_node("ReduceSum", ["shares", "axis"], ["total"]),
        helper.make_node("Greater", ["total", "none"], ["says_something"]),
        helper.make_node("Div", ["shares", "total"], ["normalised"]),
        helper.make_node("Where", ["says_something", "normalised", "even"], [name]),
        *([] if order is None else in_order(name, "probabilities")),
    ]
    more = _constants(axis=np.array([1]), none=np.zeros(1), even=np.full(1, 1.0 / n_classes))
    return Output(value, [*rising, *nodes], constants + more)


def _constants(**arrays: Any) -> list[Any]:
    from onnx import numpy_helper  # noqa: PLC0415

    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]
