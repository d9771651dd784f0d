"""Thresholds: chosen as by trying all of them, and kept in every format and on every route."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_curve

from streamsvm.reader.certificate.metrics import Ranking, weighted
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.threshold import cut_at, threshold_by
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Rows
from tests.machines import random_machine
from tests.refusals import refused
from tests.service.models.model_files import export, read

N_ROWS, N_FEATURES = 400, 12


def rows_of_two(is_weighted, levels=10**9):
    """Classes (n_rows,), scores, weights of rows, their ranking, and thresholds between all scores and beyond."""
    rng = np.random.default_rng(5)
    y = rng.random(N_ROWS) < 0.3
    scores = np.round((rng.standard_normal(N_ROWS) + y) * levels) / levels
    weight = rng.lognormal(0.0, 1.0, N_ROWS) if is_weighted else np.ones(N_ROWS)
    rows = weighted(scores, weight) if is_weighted else scores
    there = np.unique(scores)
    between = np.concatenate([[there[0] - 1], (there[1:] + there[:-1]) / 2, [there[-1] + 1]])
    return y, scores, weight, Ranking(rows[y], rows[~y]), between


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("levels", [3, 10**9])
def test_f1_is_as_large_as_any_threshold_makes_it(is_weighted, levels):
    y, scores, weight, ranking, between = rows_of_two(is_weighted, levels)
    found = threshold_by("f1", ranking)
    best = max(f1_score(y, scores > each, sample_weight=weight) for each in between)
    assert found in between and f1_score(y, scores > found, sample_weight=weight) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("precision", ["0.5", "0.8", "1"])
def test_recall_is_the_largest_at_the_precision(is_weighted, precision):
    y, scores, weight, ranking, _ = rows_of_two(is_weighted)
    shares, recall, _ = precision_recall_curve(y, scores, sample_weight=weight)
    found = scores > threshold_by(f"precision>={precision}", ranking)
    best = recall[:-1][shares[:-1] >= float(precision)].max()
    assert weight[found & y].sum() / weight[y].sum() == pytest.approx(best, rel=1e-12)
    assert weight[found & y].sum() / weight[found].sum() >= float(precision) * (1 - 1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("costs", [(1, 1), (1, 20), (7.5, 1), (1, 0), (0, 1)])
def test_costs_are_as_low_as_any_threshold_makes_them(is_weighted, costs):
    y, scores, weight, ranking, between = rows_of_two(is_weighted)

    def cost(threshold):
        said = scores > threshold
        return costs[0] * weight[said & ~y].sum() + costs[1] * weight[~said & y].sum()

    found = cost(threshold_by(f"costs={costs[0]}:{costs[1]}", ranking))
    assert found == pytest.approx(min(map(cost, between)), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("rule", ["f2", "precision>=1.5", "precision>=nan", "costs=1", "costs=-1:1", "0.5"])
def test_another_rule_is_refused(rule):
    with pytest.raises(ServiceError) as caught:
        threshold_by(rule, rows_of_two(False)[3])
    assert caught.value.code == "threshold_range" and "costs=5:1" in caught.value.hint


@pytest.mark.parametrize("rule", ["f1", "costs=1:1", "precision>=0.5"])
def test_rows_of_one_class_choose_nothing(rule):
    with refused(ServiceError, "threshold_not_found"):
        threshold_by(rule, Ranking(np.empty(0), np.array([1.0, 2.0])))


def linear(bias, loss="hinge", **more):
    w = np.random.default_rng(1).standard_normal(N_FEATURES)
    return Model(w, (1.0, -1.0), 1, bias, 0.0 if bias is None else 0.3, {"loss": loss, "C": 1.0}, **more)


def some_rows():
    X = np.random.default_rng(2).standard_normal((N_ROWS, N_FEATURES))
    indptr, indices = np.arange(N_ROWS + 1) * N_FEATURES, np.tile(np.arange(1, N_FEATURES + 1), N_ROWS)
    return X, Rows(np.zeros(N_ROWS), indptr, indices, X.ravel())


@pytest.mark.parametrize(
    "model",
    [*(linear(bias) for bias in (None, 0.0, 1.0, 2.5)), random_machine(50, N_FEATURES, gamma=0.1)],
    ids=["no bias", "0", "1", "2.5", "kernel"],
)
def test_a_model_is_cut_there_in_whatever_file_it_comes(model):
    """Formats have no field of it: the threshold is part of the bias."""
    rows = some_rows()[1]
    before = Predictor(model).predict(rows).decision_values
    threshold = float(np.quantile(before, 0.7))
    expected = np.where(before > threshold, *model.labels)
    assert 0 < (expected != np.where(before > 0, *model.labels)).sum() < N_ROWS
    cut = cut_at(model, threshold)
    for name in ("npz", "onnx", "liblinear" if model.vectors is None else "libsvm"):
        assert Predictor(read(name, export(name, cut))).predict(rows).labels.tolist() == expected.tolist()
    assert Predictor(cut).predict(rows).labels.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "model", [linear(1.0, "logistic"), linear(None, sigmoid=((-1.5, 0.2),))], ids=["loss", "fitted"]
)
def test_probabilities_stay(model):
    cut = cut_at(cut_at(model, 0.5), 0.2)
    assert cut.about["threshold"] == 0.7
    before, after = (Predictor(each).predict(some_rows()[1]).decision_values for each in (model, cut))
    assert after == pytest.approx(before - 0.7)
    assert Predictor(cut).probabilities(after) == pytest.approx(Predictor(model).probabilities(before), rel=1e-9)


@pytest.mark.parametrize("labels", [(), (1.0, 2.0, 3.0)])
def test_only_two_classes_are_cut(labels):
    model = Model(np.ones((3, 2)) if labels else np.ones(2), labels, 1)
    with refused(ServiceError, "threshold_range"):
        cut_at(model, 0.5)
