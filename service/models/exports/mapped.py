"""Reads feature maps from model files, and folds them into the weights for formats that have no maps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamsvm.service.models.exports.errors import ModelFormatError
from streamsvm.storage.features.maps import FeatureMaps, listed_maps
from streamsvm.storage.features.rows import FeaturesError
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array


def read_maps(document: Any, arrays: Mapping[str, Array]) -> FeatureMaps:
    """Read the maps of a file. Raises ModelFormatError if a map is unknown or incomplete."""
    try:
        return FeatureMaps.read(document, arrays)
    except (FeaturesError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFormatError("a feature map of the model is unknown or incomplete") from error


def folded(model: Model, program: str) -> Model:
    """Fold maps into the weights, so that they apply to rows of the input. ModelFormatError if a map cannot be folded.

    A constant that the maps make goes into the weight of the bias. A list of features stays, without numbers below
    index_base; `columns_of` gives their columns.
    """
    if model.maps is None:
        return model
    w, constant = model.w, np.zeros(model.w.shape[:-1])
    listed = model.maps.listed
    for each in reversed(model.maps.maps[listed is not None :]):
        folded_map = each.map.folded(w, each.arrays)
        if folded_map is None:
            raise ModelFormatError(
                f"{program} has no feature map {each.name}, and it cannot be folded into the weights",
                "take the model as npz, and predict with streamsvm predict or the service",
            )
        w, constant = folded_map[0], constant + folded_map[1]
    bias, w_bias = model.bias, np.asarray(model.w_bias)
    if np.any(constant):
        bias = model.bias or 1.0
        w_bias = (np.asarray(model.intercept) + constant) / bias
    factors = tuple(w_bias.tolist()) if np.ndim(w_bias) else float(w_bias)
    if listed is None:
        return replace(model, w=np.ascontiguousarray(w[..., model.index_base :]), bias=bias, w_bias=factors, maps=None)
    first = int(np.searchsorted(listed, model.index_base))
    maps = listed_maps(model.n_features, model.index_base, listed[first:])
    return replace(model, w=np.ascontiguousarray(w[..., first:]), bias=bias, w_bias=factors, maps=maps)


def columns_of(model: Model) -> Array | None:
    """Columns (k,) int64, from 0, of the features that a folded model has weights for; None: it has all."""
    listed = None if model.maps is None else model.maps.listed
    return None if listed is None else listed.astype(np.int64) - model.index_base
