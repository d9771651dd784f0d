"""The default solver with logistic loss and in regression, out of core: the optimum of LIBLINEAR's algorithm."""

import numpy as np
import pytest

from streamsvm.trainer.problem.losses import REGRESSION
from tests.contracts.problems import make_dataset, random_problem, stored_rows
from tests.contracts.solver import SMALLEST_CACHE, Exact
from tests.trainer.test_lanes import folds_in, stored
from tests.trainer.test_sample_weights import weighted
from tests.training import train

LOSSES = ("logistic", *REGRESSION)
EXACTLY = {"tolerance": None, "relative_gap": 5e-7, "max_passes": 5000}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", [{}, {"on_disk": True}, {"on_disk": True, "pace": "adaptive", "threads": 2}], ids=str)
def test_values_of_C_and_folds_side_by_side_on_rows_with_weights(tmp_path, loss, way):
    X, y = random_problem(300, 60, 12)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.5], len(y))
    dataset = weighted(tmp_path / "data", X, y, weight)
    Cs = [0.1, 1.0]
    settings = {**EXACTLY, **way, "loss": loss, "C": Cs, "folds": 2, "seed": 7, "lanes": True, "updates_per_row": 6}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, **settings)
    X, y, weight = stored(dataset)
    if loss != "logistic":
        y = stored_rows(dataset)[0].label
    fold = folds_in(tmp_path / "run", len(y), 2, 7)
    lanes = [(C, left_out) for left_out in (0, 1, None) for C in Cs]
    assert len(found.results) == len(lanes)
    for lane, (result, (C, left_out)) in enumerate(zip(found.results, lanes, strict=True)):
        problem = Exact(X, y, loss, C * np.float64(weight) * (fold != left_out))
        alpha, w, certificate = found.alpha[:, lane], found.w[:, lane], result["certificate"]
        P, D = problem.primal(w), problem.dual(alpha)
        assert not alpha[fold == left_out].any()
        assert result["converged"] and -1e-12 * P <= P - D <= 5.1e-7 * P, (lane, C, left_out)
        assert (certificate["primal_objective"], certificate["dual_objective"]) == pytest.approx((P, D), rel=1e-9)


@pytest.mark.parametrize("way", [{}, {"on_disk": True}], ids=str)
def test_classes_of_logistic_loss_side_by_side(tmp_path, way):
    X, _ = random_problem(300, 60, 12)
    labels = np.argmax(X @ np.random.default_rng(0).standard_normal((60, 3)), axis=1) + 1.0
    dataset = make_dataset(tmp_path / "data", X, labels)
    settings = {**EXACTLY, **way, "loss": "logistic", "updates_per_row": 6}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, lanes=True, **settings)
    X, labels, _ = stored(dataset)
    for lane, label in enumerate(np.unique(labels)):
        problem = Exact(X, np.where(labels == label, 1.0, -1.0), "logistic", np.ones(len(labels)))
        P, D = problem.primal(found.w[:, lane]), problem.dual(found.alpha[:, lane])
        assert found.results[lane]["converged"] and 0.0 <= P - D <= 5.1e-7 * P
