"""Finds the words with the largest weights in a linear model of documents."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.blocks.feature_words import FeatureWords, read_words
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array

MOST_SHOWN = 20
MOST_CLASSES = 100


def input_about(manifest: Manifest) -> dict[str, Any]:
    """Return the part of a model's `about` that says how its dataset was read, so that other rows are read alike.

    A table makes the same model whatever the format of its file.
    """
    input_ = manifest.input
    if input_ is None:
        return {}
    return {"input": {**input_, "format": "table"} if "columns" in input_ else input_}


def with_heaviest(model: Model, dataset: Path) -> Model:
    """Add `heaviest` to the `about` of a model of the dataset in this directory, if its features have words.

    `heaviest` is a list of `{"label", "positive", "negative"}`; the last two are lists of `{"word", "feature",
    "weight"}`, the heaviest first. Two classes have one entry, for the first label. More classes have an entry each,
    up to MOST_CLASSES, without `negative`. Regression has one entry whose label is None. `weight` belongs to the word:
    with `alternate_sign` it may differ in sign from the weight of the feature.
    """
    is_text = (model.about.get("input") or {}).get("format") == "text"
    # The features of a kernel machine have no weights, nor have features that feature maps replace by others.
    weighs_words = model.vectors is None and (model.maps is None or model.maps.keeps_numbers)
    words = read_words(dataset) if is_text and weighs_words else None
    if words is None:
        return model
    signs = words.signs if model.about["input"]["alternate_sign"] else np.ones(len(words.signs))
    labels = model.labels[:MOST_CLASSES] if model.is_multiclass else (model.labels[0] if model.labels else None,)
    entries = []
    for label, w in zip(labels, np.atleast_2d(model.w), strict=False):
        weights = _weights(model, w, words.features) * signs
        entry = {"label": label, "positive": _largest(weights, words)}
        if not model.is_multiclass:
            entry["negative"] = [{**each, "weight": -each["weight"]} for each in _largest(-weights, words)]
        entries.append(entry)
    return replace(model, about={**model.about, "heaviest": entries})


def _weights(model: Model, w: Array, features: Array) -> Array:
    """Look up the weights (k,) of the features (k,)."""
    listed = None if model.maps is None else model.maps.listed
    if listed is None:
        return w[features]
    places = np.minimum(np.searchsorted(listed, features), len(listed) - 1)
    return np.where(listed[places] == features, w[places], 0.0)


def _largest(weights: Array, words: FeatureWords) -> list[dict[str, Any]]:
    """List the words with the largest positive weights; weights is (k,), one for each word."""
    count = min(MOST_SHOWN, len(weights))
    places = np.argpartition(-weights, count - 1)[:count] if count else np.zeros(0, np.int64)
    # Equal weights are ordered by feature, so that the same run writes the same bytes.
    places = places[np.lexsort((places, -weights[places]))]
    return [
        {"word": words.words[k].decode(), "feature": int(words.features[k]), "weight": float(weights[k])}
        for k in places.tolist()
        if weights[k] > 0
    ]
