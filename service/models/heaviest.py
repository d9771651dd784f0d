"""Finds what has the largest weights in a linear model: words of documents, columns of tables, or features."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.storage.blocks.feature_files import FeatureWords, read_words
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


def with_heaviest(model: Model, dataset: Path | None = None) -> Model:
    """Add `heaviest` to the `about` of a linear model; dataset: the directory of its dataset, None if that is gone.

    `heaviest` is a list of `{"label", "positive", "negative"}`; the last two are lists of `{"word", "feature",
    "weight"}`, the heaviest first. Two classes have one entry, for the first label. More classes have an entry each,
    up to MOST_CLASSES. Regression has one entry whose label is None. `word` is a word of documents, the name of a
    table's column, or the number of a feature without a name. `weight` belongs to the word: with `alternate_sign` it
    may differ in sign from the weight of the feature.
    """
    # The features of a kernel machine have no weights, nor have features that feature maps replace by others.
    if model.vectors is not None or not (model.maps is None or model.maps.keeps_numbers):
        return model
    words = _words_of(model, dataset)
    labels = model.labels[:MOST_CLASSES] if model.is_multiclass else (model.labels[0] if model.labels else None,)
    entries = []
    for label, w in zip(labels, np.atleast_2d(model.w), strict=False):
        weights = _weights(model, w, words.features) * words.signs
        negative = [{**each, "weight": -each["weight"]} for each in _largest(-weights, words, model)]
        entries.append({"label": label, "positive": _largest(weights, words, model), "negative": negative})
    return replace(model, about={**model.about, "heaviest": entries})


def numbers_of(model: Model) -> Array:
    """Return the features (k,), ascending and numbered as in the input, that w[..., :k] of a linear model weighs.

    Feature maps, if the model has any, keep numbers; weights beyond k belong to a constant that they append.
    """
    if model.maps is None:
        return np.arange(model.index_base, model.index_base + model.n_features)
    listed = model.maps.listed
    return np.arange(model.maps.shape.width) if listed is None else listed.astype(np.int64)


def _words_of(model: Model, dataset: Path | None) -> FeatureWords:
    """Return the words of documents; of other rows, or if the words are not known, all features, without words."""
    input_ = model.about.get("input") or {}
    words = read_words(dataset) if dataset is not None and input_.get("format") == "text" else None
    if words is None:
        numbers = numbers_of(model)
        features = numbers[numbers >= model.index_base]
        return FeatureWords(features, np.ones(len(features)), [])
    return words if input_["alternate_sign"] else words._replace(signs=np.ones(len(words.signs)))


def _weights(model: Model, w: Array, features: Array) -> Array:
    """Look up the weights (k,) of the features (k,); a feature that the model does not know has weight 0."""
    numbers = numbers_of(model)
    places = np.minimum(np.searchsorted(numbers, features), len(numbers) - 1)
    return np.where(numbers[places] == features, w[places], 0.0)


def _largest(weights: Array, words: FeatureWords, model: Model) -> list[dict[str, Any]]:
    """List the words with the largest positive weights; weights is (k,), one for each word."""
    count = min(MOST_SHOWN, len(weights))
    places = np.argpartition(-weights, count - 1)[:count] if count else np.zeros(0, np.int64)
    # Equal weights are ordered by feature, so that the same run writes the same bytes.
    places = places[np.lexsort((places, -weights[places]))]
    places = places[weights[places] > 0]
    features = words.features[places].tolist()
    if words.words:
        names = {feature: words.words[k].decode() for feature, k in zip(features, places.tolist(), strict=True)}
    else:
        names = feature_names(model.about.get("input"), set(features), model.index_base)
    return [
        {"word": names.get(feature, str(feature)), "feature": feature, "weight": float(weight)}
        for feature, weight in zip(features, weights[places], strict=True)
    ]
