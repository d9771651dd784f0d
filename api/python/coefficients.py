"""Reads and replaces the weights of a model as `coef_`."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model


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
