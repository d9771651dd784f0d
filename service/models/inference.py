"""A model as the Open Inference Protocol v2 has it: which tensors it takes and gives, and what it makes of them.

Either X (n, n_features), column j being the feature numbered j + index_base in training, or rows in compressed sparse
form: indptr (n + 1,), indices and values (nnz,), features numbered as in training. A model of documents takes these as
well: documents (n,), BYTES in UTF-8. A decision value is a margin, no probability; of several classes each has one.
Probabilities there are of models that have any.
"""

from typing import Any

import numpy as np

from reader.errors import InputError
from service.errors import ServiceError
from service.models.predictor import Predictor
from service.models.tensors import datatype_of
from storage.csr import Array

DENSE, SPARSE, DOCUMENTS = ("X",), ("indptr", "indices", "values"), ("documents",)


def outputs_of(predictor: Predictor) -> tuple[str, ...]:
    """Names of what the model gives."""
    if predictor.is_regression:
        return ("value",)
    return ("label", "decision_value", "probability") if predictor.has_probabilities else ("label", "decision_value")


def describe(name: str, predictor: Predictor) -> dict[str, Any]:
    """The model's metadata."""
    inputs: tuple[tuple[str, str, list[int]], ...] = (
        ("X", "FP64", [-1, predictor.n_features]),
        ("indptr", "INT64", [-1]),
        ("indices", "INT64", [-1]),
        ("values", "FP64", [-1]),
    )
    if predictor.reads_documents:
        inputs = (("documents", "BYTES", [-1]), *inputs)
    none = infer(predictor, {"X": np.empty((0, predictor.n_features))})
    outputs = ((output, datatype_of(array), [-1, *array.shape[1:]]) for output, array in none.items())
    return {
        "name": name,
        "versions": ["1"],
        "platform": "streamsvm",
        "inputs": [dict(zip(("name", "datatype", "shape"), tensor, strict=True)) for tensor in inputs],
        "outputs": [dict(zip(("name", "datatype", "shape"), tensor, strict=True)) for tensor in outputs],
        **({"parameters": {"labels": list(predictor.classes)}} if predictor.classes else {}),
    }


def infer(predictor: Predictor, tensors: dict[str, Array]) -> dict[str, Array]:
    """The outputs: label (n,), decision_value (n,) or (n, n_classes), probability (n, n_classes), or value (n,).

    Raises ServiceError bad_tensor.
    """
    if tensors.keys() != set(DOCUMENTS) and any(array.dtype.kind == "O" for array in tensors.values()):
        raise _bad("an input is of BYTES, not of numbers")
    if tensors.keys() == set(DENSE):
        decision_values = _dense(predictor, tensors["X"])
    elif tensors.keys() == set(SPARSE):
        decision_values = _sparse(predictor, *(tensors[name] for name in SPARSE))
    elif tensors.keys() == set(DOCUMENTS) and predictor.reads_documents:
        decision_values = _documents(predictor, tensors["documents"])
    else:
        more = ", nor documents" if predictor.reads_documents else ""
        raise _bad(f"the inputs are neither X nor indptr, indices and values{more}")
    if predictor.is_regression:
        return {"value": decision_values}
    found = {"label": predictor.labels(decision_values), "decision_value": decision_values}
    shares = predictor.probabilities(decision_values)
    return found if shares is None else {**found, "probability": shares}


def _dense(predictor: Predictor, X: Array) -> Array:
    if X.ndim != 2 or X.shape[1] != predictor.n_features:
        raise _bad(f"X has the shape {list(X.shape)}, the model takes [n, {predictor.n_features}]")
    return predictor.decision_values(X)


def _documents(predictor: Predictor, documents: Array) -> Array:
    if documents.ndim != 1 or documents.dtype.kind != "O":
        raise _bad("documents is no vector of BYTES")
    try:
        return predictor.document_values(documents.tolist())
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


def _sparse(predictor: Predictor, indptr: Array, indices: Array, values: Array) -> Array:
    if not (indptr.ndim == indices.ndim == values.ndim == 1) or len(indices) != len(values):
        raise _bad("indptr, indices and values are no vectors, or indices and values are not equally long")
    if indptr.dtype.kind == "f" or indices.dtype.kind == "f":
        raise _bad("indptr or indices are not whole numbers")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(values) or (indptr[1:] < indptr[:-1]).any():
        raise _bad("indptr does not rise from 0 to the number of values")
    columns = indices.astype(np.int64) - predictor.index_base
    if (columns < 0).any():
        raise _bad(f"a feature is below {predictor.index_base}, the number of the model's first")
    return predictor.sparse_values(indptr, columns, values)


def _bad(message: str) -> ServiceError:
    return ServiceError("bad_tensor", message)
