"""Describes a model and predicts with it as the Open Inference Protocol v2 has it: tensors in, tensors out.

Every model but those of strings takes X (n, n_features), whose column j is the feature numbered j + index_base in
training; or rows in compressed sparse form: indptr (n + 1,), indices and values (nnz,), numbered as in training.
A model of documents also takes documents (n,), BYTES in UTF-8. A model of a table also takes the columns by their
names, each (n,) or (n, 1), BYTES where they are categories. A model of strings takes strings (n,), BYTES.

Outputs are labels and decision values (margins, one for each class if there are more than two), and probabilities if
the model has them; or the value, in regression.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.predicting.raw_rows import is_of_columns, match_names, rows_of_columns, rows_of_strings
from streamsvm.service.models.predicting.tensors import datatype_of
from streamsvm.storage.rows.csr import Array

VERSION = "1"  # of a model by its id, which never changes; a name may have several
DENSE, SPARSE, DOCUMENTS, STRINGS = ("X",), ("indptr", "indices", "values"), ("documents",), ("strings",)


def check_version(version: str) -> None:
    """Raise ServiceError unknown_model unless this is the version that every model has."""
    if version != VERSION:
        raise ServiceError("unknown_model", "the model has no such version", f"Its version is {VERSION}.")


def outputs_of(predictor: Predictor) -> tuple[str, ...]:
    """Names of the model's output tensors."""
    if predictor.is_regression:
        return ("value",)
    return ("label", "decision_value", "probability") if predictor.has_probabilities else ("label", "decision_value")


def describe(name: str, predictor: Predictor, versions: Sequence[str] = (VERSION,)) -> dict[str, Any]:
    """The model's metadata, as GET /v2/models/{name} answers."""
    inputs: list[tuple[str, str, list[int]]] = [
        ("X", "FP64", [-1, predictor.n_features]),
        ("indptr", "INT64", [-1]),
        ("indices", "INT64", [-1]),
        ("values", "FP64", [-1]),
    ]
    input_ = predictor.input
    no_rows: dict[str, Array] = {"X": np.empty((0, predictor.n_features))}
    if predictor.reads_documents:
        inputs = [("documents", "BYTES", [-1]), *inputs]
    elif is_of_strings(input_):
        inputs, no_rows = [("strings", "BYTES", [-1])], {"strings": np.empty(0, object)}
    elif input_ is not None and is_of_columns(input_):
        # Some clients use the first input only: with categories these are the columns, else X.
        columns = _columns_of(input_)
        inputs = [*columns, *inputs] if input_["categorical"] else [*inputs, *columns]
    arrays = infer(predictor, no_rows)
    outputs = ((output, datatype_of(array), [-1, *array.shape[1:]]) for output, array in arrays.items())
    return {
        "name": name,
        "versions": list(versions),
        "platform": "streamsvm",
        "inputs": [dict(zip(("name", "datatype", "shape"), tensor, strict=True)) for tensor in inputs],
        "outputs": [dict(zip(("name", "datatype", "shape"), tensor, strict=True)) for tensor in outputs],
        **({"parameters": {"labels": list(predictor.classes)}} if predictor.classes else {}),
    }


def infer(predictor: Predictor, tensors: dict[str, Array], most_bytes: float = math.inf) -> dict[str, Array]:
    """Predict the input tensors, by name.

    Returns label (n,), decision_value (n,) or (n, n_classes), probability (n, n_classes) if the model has it; in
    regression value (n,). Raises ServiceError bad_tensor; answer_too_large if these need more than `most_bytes`.
    """
    _check_size(predictor, tensors, most_bytes)
    decision_values = _values(predictor, tensors)
    if predictor.is_regression:
        return {"value": decision_values}
    outputs = {"label": predictor.labels(decision_values), "decision_value": decision_values}
    probabilities = predictor.probabilities(decision_values)
    return outputs if probabilities is None else {**outputs, "probability": probabilities}


def left_out(predictor: Predictor, tensors: Iterable[str]) -> list[str]:
    """Names of the table columns among the tensors that the model does not have, and `infer` ignores."""
    names, input_ = list(tensors), predictor.input
    return match_names(input_, names).unknown if input_ is not None and _are_columns(input_, names) else []


def _check_size(predictor: Predictor, tensors: dict[str, Array], most_bytes: float) -> None:
    """Refuse outputs that are too large, before they are made: a short indptr can stand for very many empty rows."""
    lengths = [array.shape[0] for array in tensors.values() if array.ndim]
    n_rows = len(tensors["indptr"]) - 1 if "indptr" in tensors and lengths else max(lengths, default=0)
    probabilities = len(predictor.classes) if predictor.has_probabilities else 0
    row_bytes = 8 * ((predictor.n_values or 1) + probabilities) + np.array(predictor.classes).itemsize
    if n_rows * row_bytes > most_bytes:
        message = f"the outputs of {n_rows} rows would have more than {int(most_bytes)} bytes"
        raise ServiceError("answer_too_large", message, "Send fewer rows at a time.")


def _are_columns(input_: dict[str, Any], tensors: Iterable[str]) -> bool:
    return is_of_columns(input_) and not set(tensors).isdisjoint(input_["columns"])


def _values(predictor: Predictor, tensors: dict[str, Array]) -> Array:
    names, input_ = tensors.keys(), predictor.input
    if is_of_strings(input_):
        if names != set(STRINGS):
            raise _bad("the inputs are not strings")
        strings = _texts(tensors, "strings")
        with _as_problems():
            return predictor.predict(rows_of_strings(strings, input_)).decision_values
    if input_ is not None and _are_columns(input_, names):
        return _of_table(predictor, tensors, input_)
    if predictor.reads_documents and names == set(DOCUMENTS):
        return _documents(predictor, _texts(tensors, "documents"))
    if any(array.dtype.kind == "O" for array in tensors.values()):
        raise _bad("an input is of BYTES, not of numbers")
    if names == set(DENSE):
        return _dense(predictor, tensors["X"])
    if names == set(SPARSE):
        return _sparse(predictor, *(tensors[name] for name in SPARSE))
    more = ", nor documents" if predictor.reads_documents else ", nor columns" if is_of_columns(input_) else ""
    raise _bad(f"the inputs are neither X nor indptr, indices and values{more}")


def _texts(tensors: dict[str, Array], name: str) -> list[str]:
    array = tensors[name]
    if array.ndim != 1 or array.dtype.kind != "O":
        raise _bad(f"{name} is no vector of BYTES")
    return array.tolist()


def _columns_of(input_: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    words = set(input_["categorical"])
    return [(name, "BYTES" if name in words else "FP64", [-1]) for name in input_["columns"]]


def _of_table(predictor: Predictor, tensors: dict[str, Array], input_: dict[str, Any]) -> Array:
    """Decision values of the rows of a table; an empty text is a missing category."""
    names = tensors.keys() & set(input_["columns"])
    if not (tensors.keys() - names).isdisjoint((*DENSE, *SPARSE)):
        raise _bad("the inputs are columns, and numbered features, too")
    columns = {name: tensors[name].reshape(-1) for name in names}
    if any(tensors[name].shape[1:] not in ((), (1,)) for name in names) or len(set(map(len, columns.values()))) > 1:
        raise _bad("columns are no vectors, or not equally long")
    n_rows = len(next(iter(columns.values())))
    with _as_problems():
        table = rows_of_columns(columns, list(tensors), n_rows, input_, predictor.index_base)
        return np.concatenate([prediction.decision_values for prediction in predictor.predict_table(table)])


@contextmanager
def _as_problems() -> Iterator[None]:
    """Raise an InputError as the ServiceError with its code, place and hint."""
    try:
        yield
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


def _dense(predictor: Predictor, X: Array) -> Array:
    if X.ndim != 2 or X.shape[1] != predictor.n_features:
        raise _bad(f"X has the shape {list(X.shape)}, the model takes [n, {predictor.n_features}]")
    return predictor.decision_values(_wide(X))


def _documents(predictor: Predictor, documents: list[str]) -> Array:
    with _as_problems():
        return predictor.document_values(documents)


def _sparse(predictor: Predictor, indptr: Array, indices: Array, values: Array) -> Array:
    if not (indptr.ndim == indices.ndim == values.ndim == 1) or len(indices) != len(values):
        raise _bad("indptr, indices and values are no vectors, or indices and values are not equally long")
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise _bad("indptr or indices are not whole numbers")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(values) or (indptr[1:] < indptr[:-1]).any():
        raise _bad("indptr does not rise from 0 to the number of values")
    columns = indices.astype(np.int64) - predictor.index_base
    if (columns < 0).any():
        raise _bad(f"a feature is below {predictor.index_base}, the number of the model's first")
    return predictor.sparse_values(indptr.astype(np.int64), columns, _wide(values))


def _wide(values: Array) -> Array:
    """Convert to float64 what is neither float32 nor float64: sums of small types would overflow or round."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _bad(message: str) -> ServiceError:
    return ServiceError("bad_tensor", message)
