"""A model as one JSON document; the weights come last, so that the head of a large file can be read by people.

    {"format": "streamsvm-linear", "version": 1, "labels": [1.0, -1.0], "index_base": 1, "n_features": 3,
     "bias": 1.0, "w_bias": 0.25, "intercept": 0.25, "about": {...}, "w": [0.5, 0.0, -2.0]}

The decision value of a row x is the sum of w[f - index_base] x_f over its features f, plus `intercept`, which is
`bias` times `w_bias`; above 0 it means the first label. `bias` is null for a model without. A model of regression has
no labels: its decision value is what it predicts.

Version 2 says more: labels may be texts; of several classes, `w`, `intercept` and `w_bias` are lists of what each has,
and the largest decision value says which; `sigmoid` is null or has a pair [A, B] a decision value f, for the
probability 1 / (1 + exp(A f + B)). A model that needs none of this is written as version 1.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np

from service.models.exports.errors import ModelFormatError, check_intercept, checked, numbers, pieces
from storage.csr import Array
from storage.model_file import Label, Model, tuples

FORMAT = "streamsvm-linear"
VERSION, PLAIN = 2, 1


def write(model: Model) -> Iterator[bytes]:
    """The document in pieces under 1 MiB; ModelFormatError, before the first, if a weight is not finite."""
    return _stream(head_of(checked(model)), np.atleast_2d(model.w), model.is_multiclass)


def head_of(model: Model) -> str:
    """A model without its weights, as a JSON object."""
    head = {
        "format": FORMAT,
        "version": PLAIN if model.is_plain else VERSION,
        "labels": [label if isinstance(label, str) else float(label) for label in model.labels],
        "index_base": model.index_base,
        "n_features": model.n_features,
        "bias": model.bias,
        "w_bias": model.w_bias,
        "intercept": np.asarray(model.intercept).tolist(),
        **({} if model.is_plain else {"sigmoid": model.sigmoid}),
        "about": plain(model.about),
    }
    return json.dumps(head, allow_nan=False)


def _stream(head: str, rows: Array, nested: bool) -> Iterator[bytes]:
    yield head.removesuffix("}").encode() + b', "w": ' + b"[" * nested
    row_comma = b""
    for row in rows:
        yield row_comma + b"["
        comma = b""
        for piece in pieces(row):
            yield comma + numbers(piece)
            comma = b","
        yield b"]"
        row_comma = b","
    yield b"]" * nested + b"}\n"


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
    """The model of a head and its weights, shaped as Model.w; ModelFormatError unless they are of this program."""
    if document.get("format") != FORMAT:
        raise ModelFormatError(f'this is no model: "format" is not "{FORMAT}"')
    if document.get("version") not in (PLAIN, VERSION):
        raise ModelFormatError("the model has an unknown version", f"this program reads versions {PLAIN} and {VERSION}")
    if w.shape[-1:] != (document.get("n_features"),):
        raise ModelFormatError('"w" has not "n_features" weights')
    bias = None if document.get("bias") is None else float(_vector([document["bias"]], "bias")[0])
    base, about = document.get("index_base"), document.get("about")
    if type(base) is not int or not isinstance(about, dict):
        raise ModelFormatError('"index_base" is not an integer, or "about" not an object')
    w_bias, sigmoid = tuples(_values(document, "w_bias").tolist()), document.get("sigmoid")
    pairs = None if sigmoid is None else tuples(_numbers(document, "sigmoid").tolist())
    model = checked(Model(w, _labels(document), base, bias, w_bias, about, pairs))
    check_intercept(model, _values(document, "intercept"))
    if document["version"] == PLAIN and not model.is_plain:
        raise ModelFormatError(f"version {PLAIN} has two classes, with numbers as labels")
    return model


def _labels(document: dict[str, Any]) -> tuple[Label, ...]:
    labels = document.get("labels")
    if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
        return tuple(labels)
    return tuple(_numbers(document, "labels").tolist())


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


def _values(document: dict[str, Any], name: str) -> Array:
    """A number (), or those of a list."""
    value = document.get(name)
    return _vector(value, name) if isinstance(value, list) else _vector([value], name)[0]


def _numbers(document: dict[str, Any], name: str) -> Array:
    """(n,) or (m, n) float64: the numbers of a list in the document, or of the lists in it."""
    values = document.get(name)
    if not isinstance(values, list) or not values or not all(isinstance(row, list) for row in values):
        return _vector(values, name)
    rows = [_vector(row, name) for row in values]
    if len({len(row) for row in rows}) > 1:
        raise ModelFormatError(f'the lists of "{name}" are not equally long')
    return np.stack(rows)


def _vector(values: Any, name: str) -> Array:
    if not isinstance(values, list) or not set(map(type, values)) <= {float, int}:
        raise ModelFormatError(f'"{name}" is missing or not made of numbers')
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise ModelFormatError(f'"{name}" has a number beyond float64') from None
