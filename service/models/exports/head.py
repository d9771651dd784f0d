"""The head of a model: all but its weights and support vectors as a JSON object, which ONNX files have as metadata.

    {"format": "streamsvm-linear", "version": 1, "labels": [1.0, -1.0], "index_base": 1, "n_features": 3,
     "bias": 1.0, "w_bias": 0.25, "intercept": 0.25, "about": {...}}

Version 2 adds: labels may be texts, `intercept` and `w_bias` are lists with an entry for each of more than two classes,
and `sigmoid` is null or has a pair [A, B] for each decision value. A model that needs none of this has version 1.
Version 3 adds "maps", the names and options of feature maps. A kernel machine has all fields of version 2, with
"format" "streamsvm-kernel", "version" 1 and "gamma".
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from streamsvm.service.models.exports.errors import (
    MOST_FEATURES,
    ModelFormatError,
    check_intercept,
    checked,
)
from streamsvm.service.models.exports.mapped import read_maps
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.models.model_file import Label, Model, tuples
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import Array

FORMAT, KERNEL_FORMAT = "streamsvm-linear", "streamsvm-kernel"
VERSIONS = {FORMAT: (1, 2, 3), KERNEL_FORMAT: (1,)}
PLAIN, _SEVERAL = 1, 2


def head_of(model: Model) -> str:
    """Write a model without its weights and support vectors as a JSON object."""
    format_ = FORMAT if model.vectors is None else KERNEL_FORMAT
    head = {
        "format": format_,
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
        return VERSIONS[FORMAT][-1]
    return PLAIN if model.is_plain or model.vectors is not None else _SEVERAL


def plain(value: Any) -> Any:
    """Convert a value to what JSON can hold; a number that is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def with_weights(document: dict[str, Any], w: Array, arrays: Sequence[Array] | None = None) -> Model:
    """Make a model from its document and its weights.

    w       weights, shaped as Model.w
    arrays  indptr, indices and values of the support vectors of a kernel machine
    Raises ModelFormatError if the document is none of this program, or contradicts the arrays.
    """
    format_ = FORMAT if arrays is None else KERNEL_FORMAT
    if document.get("format") != format_:
        raise ModelFormatError(f'this is no model: "format" is not "{format_}"')
    if document.get("version") not in VERSIONS[format_]:
        versions = " and ".join(map(str, VERSIONS[format_]))
        raise ModelFormatError("the model has an unknown version", f"this program reads versions {versions}")
    maps = _maps(document)
    if arrays is None and (maps is not None) != (document["version"] == VERSIONS[FORMAT][-1]):
        raise ModelFormatError("models with feature maps, and no others, have version 3")
    if arrays is None and w.shape[-1:] != (document.get("n_features") if maps is None else maps.width,):
        raise ModelFormatError('the number of weights in "w" is not the number of features')
    bias = None if document.get("bias") is None else float(_vector([document["bias"]], "bias")[0])
    base, about = document.get("index_base"), document.get("about")
    if type(base) is not int or not isinstance(about, dict):
        raise ModelFormatError('"index_base" is not an integer, or "about" not an object')
    w_bias, sigmoid = tuples(_values(document, "w_bias").tolist()), document.get("sigmoid")
    pairs = None if sigmoid is None else tuples(_numbers(document, "sigmoid").tolist())
    vectors = None if arrays is None else _vectors(document, base, arrays)
    model = checked(Model(w, _labels(document), base, bias, w_bias, about, pairs, vectors, maps))
    check_intercept(model, _values(document, "intercept"))
    if vectors is None and document["version"] == PLAIN and not model.is_plain:
        raise ModelFormatError(f"version {PLAIN} has two classes, with numbers as labels")
    return model


def _maps(document: dict[str, Any]) -> FeatureMaps | None:
    if "maps" not in document:
        return None
    arrays = {name: _vector(document[name], name) for name in document if name[:1].isdigit()}
    return read_maps(document["maps"], arrays)


def _vectors(document: dict[str, Any], index_base: int, arrays: Sequence[Array]) -> SupportVectors:
    n_features = document.get("n_features")
    if type(n_features) is not int or not 0 <= n_features < MOST_FEATURES:
        raise ModelFormatError('"n_features" is not a number of features')
    return SupportVectors(float(_vector([document.get("gamma")], "gamma")[0]), index_base + n_features, *arrays)


def _labels(document: dict[str, Any]) -> tuple[Label, ...]:
    labels = document.get("labels")
    if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
        return tuple(labels)
    return tuple(_numbers(document, "labels").tolist())


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object; ModelFormatError if the text is none."""
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
    """Read a number as (), a list as (n,), float64."""
    value = document.get(name)
    return _vector(value, name) if isinstance(value, list) else _vector([value], name)[0]


def _numbers(document: dict[str, Any], name: str) -> Array:
    """Read a list of numbers as (n,), a list of lists as (m, n), float64."""
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
