"""Computes what each feature of a row contributes to its decision value, by a model that is linear in them."""

import copy
from functools import partial
from typing import Any

import numpy as np

from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array, Rows

MOST = 10  # contributions of a row


def can_explain(model: Model) -> bool:
    """Whether decision values of a model are sums over features: it has no kernel, and no feature maps."""
    return model.vectors is None and model.maps is None


def explaining(predictor: Predictor) -> Predictor:
    """A predictor of the same model, which `can_explain`, whose predictions have contributions; they share weights."""
    other = copy.copy(predictor)
    other.explain = partial(contributions, predictor.model)
    return other


def contributions(model: Model, rows: Rows, decision_values: Array) -> list[dict[str, float]]:
    """The terms w_j x_j of each row that are largest in size, at most MOST, the largest first, by names of features.

    A feature without a name goes by its number. All terms of a row and the intercept add up to its decision value;
    terms that are 0 are left out, and so are features that the model does not know. Of several classes, the decision
    value of the class that is predicted is explained.
    """
    d, base = model.n_features, model.index_base
    row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    places = rows.indices.astype(np.int64) - base
    is_known = (places >= 0) & (places < d)
    row, places, values = row[is_known], places[is_known], rows.values[is_known].astype(np.float64)
    weights = model.w[predicted_classes(decision_values)[row], places] if model.is_multiclass else model.w[places]
    terms = values * weights
    order = np.lexsort((places, -np.abs(terms), row))
    order = order[terms[order] != 0]
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    chosen = order[rank < MOST]
    numbers = places[chosen] + base
    names: dict[int, str] = feature_names(_input_of(model), set(numbers.tolist()), base)
    found: list[dict[str, float]] = [{} for _ in range(len(rows))]
    for k, number, term in zip(row[chosen].tolist(), numbers.tolist(), terms[chosen].tolist(), strict=True):
        found[k][names.get(number, str(number))] = term
    return found


def _input_of(model: Model) -> dict[str, Any] | None:
    return model.about.get("input")
