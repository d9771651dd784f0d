"""What weighs most in a linear model of documents: the features with the largest weights, by their words."""

from collections.abc import Mapping
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
    """What models of a dataset say of its input, so that further rows can be read in the same way."""
    return {} if manifest.input is None else {"input": manifest.input}


def with_heaviest(model: Model, dataset: Path) -> Model:
    """A model of the dataset in this directory, with `heaviest` in `about` if its features have words.

    A list of `{"label", "positive", "negative"}`, which are lists of `{"word", "feature", "weight"}`, the heaviest
    first: of two labels one entry, of the first of them; of several an entry each without `negative`, up to
    MOST_CLASSES; in regression one whose label is None. A weight is that of the word: where signs alternate, not always
    that of its feature.
    """
    words = None if model.vectors is not None or not _is_text(model.about) else read_words(dataset)
    if words is None:
        return model
    signs = words.signs if model.about["input"]["alternate_sign"] else np.ones(len(words.signs))
    labels = model.labels[:MOST_CLASSES] if model.is_multiclass else (model.labels[0] if model.labels else None,)
    found = []
    for label, w in zip(labels, np.atleast_2d(model.w), strict=False):
        weights = _weights(model, w, words.features) * signs
        entry = {"label": label, "positive": _largest(weights, words)}
        if not model.is_multiclass:
            entry["negative"] = [{**each, "weight": -each["weight"]} for each in _largest(-weights, words)]
        found.append(entry)
    return replace(model, about={**model.about, "heaviest": found})


def _weights(model: Model, w: Array, features: Array) -> Array:
    """The weights (k,) of these features."""
    listed = None if model.maps is None else model.maps.listed
    if listed is None:
        return w[features]
    places = np.minimum(np.searchsorted(listed, features), len(listed) - 1)
    return np.where(listed[places] == features, w[places], 0.0)


def _is_text(about: Mapping[str, Any]) -> bool:
    return (about.get("input") or {}).get("format") == "text"


def _largest(weights: Array, words: FeatureWords) -> list[dict[str, Any]]:
    """Those of the largest weights (k,), as far as they are above 0."""
    count = min(MOST_SHOWN, len(weights))
    places = np.argpartition(-weights, count - 1)[:count] if count else np.zeros(0, np.int64)
    # Equal ones by their features: the same model has the same bytes.
    places = places[np.lexsort((places, -weights[places]))]
    return [
        {"word": words.words[k].decode(), "feature": int(words.features[k]), "weight": float(weights[k])}
        for k in places.tolist()
        if weights[k] > 0
    ]
