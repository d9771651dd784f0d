"""Brings a model into scikit-learn's form: its classes in order, classes that had no rows, its weights as `coef_`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.rows.csr import Array


def in_order(model: Model) -> Model:
    """Return the model with its labels sorted; of two, the larger is first: a positive decision value means it."""
    labels = model.labels
    if model.is_regression:
        return model
    if not model.is_multiclass:
        if labels[0] > labels[1]:  # type: ignore[operator]
            return model
        flipped = None if model.sigmoid is None else tuple((A, -B) for A, B in model.sigmoid)
        return replace(model, w=-model.w, w_bias=-model.w_bias, labels=labels[::-1], sigmoid=flipped)  # type: ignore[operator]
    order = sorted(range(len(labels)), key=lambda place: labels[place])
    if order == list(range(len(labels))):
        return model
    return replace(
        model,
        w=model.w[order],
        w_bias=tuple(model.w_bias[k] for k in order) if model.bias is not None else model.w_bias,  # type: ignore[index]
        labels=tuple(labels[k] for k in order),
        sigmoid=None if model.sigmoid is None else tuple(model.sigmoid[k] for k in order),
    )


def with_absent(model: Model, absent: Sequence[Label]) -> Model:
    """Return the model with more classes, which no row has had so far: each has w = 0 and an intercept of -1."""
    if not absent:
        return model
    w, intercept = np.atleast_2d(model.w), np.atleast_1d(model.intercept)
    if not model.is_multiclass:
        w, intercept = np.vstack([w, -w]), np.concatenate([intercept, -intercept])
    w = np.vstack([w, np.zeros((len(absent), w.shape[1]))])
    w_bias = (*intercept.tolist(), *[-1.0] * len(absent))
    return replace(model, w=w, bias=1.0, w_bias=w_bias, labels=(*model.labels, *absent), sigmoid=None)


def label_array(labels: Sequence[Label]) -> Array:
    """Return labels as an array, (n,); int64 if all are whole numbers, because files hold them as floats."""
    array = np.array(labels)
    is_whole = array.dtype.kind == "f" and (array == np.rint(array)).all() and (np.abs(array) < 2**53).all()
    return array.astype(np.int64) if is_whole else array


def coefficients(model: Model) -> Any:
    """Return (n_values, n_features), in regression (n_features,).

    The matrix is of scipy.sparse if features are so far apart that the model lists their numbers.
    """
    if model.maps is None or model.maps.listed is None or len(model.maps) > 1:
        return model.w if model.is_regression else np.atleast_2d(model.w)
    w, columns = np.atleast_2d(model.w), model.maps.listed - model.index_base
    indptr = np.arange(len(w) + 1) * len(columns)
    return sparse.csr_matrix((w.reshape(-1), np.tile(columns, len(w)), indptr), (len(w), model.n_features))


def with_coefficients(model: Model, changed: Any) -> Model:
    """Return the model with other weights, a matrix (n_values, n_features) of scipy.sparse."""
    entries = sparse.coo_matrix(changed)
    columns, place = np.unique(entries.col, return_inverse=True)
    w = np.zeros((entries.shape[0], len(columns)))
    w[entries.row, place] = entries.data
    maps = listed_maps(model.n_features, model.index_base, columns + model.index_base)
    return replace(model, w=w if model.is_multiclass else w[0], maps=maps)
