"""Models that carry feature maps: read from a file, or, for formats that know none, folded into their weights."""

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
    """The maps of a file. Raises ModelFormatError if they are not known, or not whole."""
    try:
        return FeatureMaps.read(document, arrays)
    except (FeaturesError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFormatError("the feature maps of the model are not known, or not whole") from error


def folded(model: Model, program: str) -> Model:
    """Fold maps into the weights, for rows as they are. ModelFormatError if a map cannot be, or of strings.

    A constant that maps make becomes part of the constant feature's weight. A list of features stays, without those
    that there cannot be: `columns_of` tells where they are.
    """
    if model.maps is None:
        return model
    w, constant = model.w, np.zeros(model.w.shape[:-1])
    listed = model.maps.listed
    for each in reversed(model.maps.maps[listed is not None :]):
        found = each.map.folded(w, each.arrays)
        if found is None:
            raise ModelFormatError(
                f"{program} has no feature map {each.name}, and it cannot be folded into the weights",
                "take the model as npz or json, and predict with streamsvm predict or the service",
            )
        w, constant = found[0], constant + found[1]
    bias, w_bias = model.bias, np.asarray(model.w_bias)
    if np.any(constant):
        bias = model.bias or 1.0
        w_bias = (np.asarray(model.intercept) + constant) / bias
    told = tuple(w_bias.tolist()) if np.ndim(w_bias) else float(w_bias)
    if listed is None:
        return replace(model, w=np.ascontiguousarray(w[..., model.index_base :]), bias=bias, w_bias=told, maps=None)
    first = int(np.searchsorted(listed, model.index_base))
    maps = listed_maps(model.n_features, model.index_base, listed[first:])
    return replace(model, w=np.ascontiguousarray(w[..., first:]), bias=bias, w_bias=told, maps=maps)


def columns_of(model: Model) -> Array | None:
    """Places (k,) int64 of a folded model's weights among its features; None: each has one."""
    listed = None if model.maps is None else model.maps.listed
    return None if listed is None else listed.astype(np.int64) - model.index_base
