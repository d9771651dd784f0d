"""A model as one JSON document; the weights come last, so that the head of a large file can be read by people.

    {"format": "streamsvm-linear", "version": 1, "labels": [1.0, -1.0], "index_base": 1, "n_features": 3,
     "bias": 1.0, "w_bias": 0.25, "intercept": 0.25, "about": {...}, "w": [0.5, 0.0, -2.0]}

The decision value of a row x is the sum of w[f - index_base] x_f over its features f, plus `intercept`, which is
`bias` times `w_bias`; above 0 it means the first label. `bias` is null for a model without. A model of regression has
no labels: its decision value is what it predicts.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np

from service.exports.errors import ModelFormatError, check_intercept, checked, numbers, pieces
from storage.csr import Array
from storage.model_file import Model

FORMAT = "streamsvm-linear"
VERSION = 1


def write(model: Model) -> Iterator[bytes]:
    """The document in pieces under 1 MiB; ModelFormatError, before the first, if a weight is not finite."""
    return _stream(head_of(checked(model)), model.w)


def head_of(model: Model) -> str:
    """A model without its weights, as a JSON object."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "labels": [float(label) for label in model.labels],
        "index_base": model.index_base,
        "n_features": len(model.w),
        "bias": model.bias,
        "w_bias": model.w_bias,
        "intercept": model.intercept,
        "about": plain(model.about),
    }
    return json.dumps(head, allow_nan=False)


def _stream(head: str, w: Array) -> Iterator[bytes]:
    yield head.removesuffix("}").encode() + b', "w": ['
    comma = b""
    for piece in pieces(w):
        yield comma + numbers(piece)
        comma = b","
    yield b"]}\n"


def plain(value: Any) -> Any:
    """The value as JSON has it: numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def read(file: BinaryIO) -> Model:
    """The model of a document; ModelFormatError if it is another one, of another version, or incomplete."""
    document = parse_object(file.read())
    return with_weights(document, _numbers(document, "w"))


def with_weights(document: dict[str, Any], w: Array) -> Model:
    """The model of a head and its weights (n_features,); ModelFormatError unless they are of this program."""
    if document.get("format") != FORMAT:
        raise ModelFormatError(f'this is no model: "format" is not "{FORMAT}"')
    if document.get("version") != VERSION:
        raise ModelFormatError("the model has an unknown version", f"this program reads version {VERSION}")
    labels = _numbers(document, "labels")
    if len(w) != document.get("n_features"):
        raise ModelFormatError('"w" has not "n_features" weights')
    bias = None if document.get("bias") is None else _number(document, "bias")
    base, about = document.get("index_base"), document.get("about")
    if type(base) is not int or not isinstance(about, dict):
        raise ModelFormatError('"index_base" is not an integer, or "about" not an object')
    model = checked(Model(w, tuple(labels.tolist()), base, bias, _number(document, "w_bias"), about))
    check_intercept(model, _number(document, "intercept"))
    return model


def parse_object(text: bytes | str) -> dict[str, Any]:
    """The JSON object of a text; ModelFormatError if it is none."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # never quote the error: it repeats the input
        raise ModelFormatError("this is not JSON, or not all of it") from None
    if not isinstance(document, dict):
        raise ModelFormatError("this is not a JSON object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _number(document: dict[str, Any], name: str) -> float:
    return float(_numbers({name: [document.get(name)]}, name)[0])


def _numbers(document: dict[str, Any], name: str) -> Array:
    """(n,) float64: the numbers of a list in the document."""
    values = document.get(name)
    if not isinstance(values, list) or not set(map(type, values)) <= {float, int}:
        raise ModelFormatError(f'"{name}" is missing or not made of numbers')
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise ModelFormatError(f'"{name}" has a number beyond float64') from None
