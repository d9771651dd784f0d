"""`pace: "fixed"` makes the same model, to the byte, whatever number of threads is asked for."""

import numpy as np
import pytest

from streamsvm import StreamSVC, StreamSVR
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import SOLVERS

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::streamsvm.SlowerTraining"
)

N_ROWS, WIDTH = 300, 260
PART, WHOLE = {"cache_bytes": 1 << 18}, {"cache_bytes": 1 << 22}  # of the rows
WAYS = {
    # A loss that each solver has, all of them in turn.
    **{
        name: {
            "solver": name,
            "loss": solver.losses[number % len(solver.losses)],
            **(WHOLE if name in ("dcd", "avsf") else PART),
        }
        for number, (name, solver) in enumerate(SOLVERS.items())
        if not solver.has_kernel
    },
    "regression": {**PART, "loss": "epsilon_insensitive"},
    "logistic": {**PART, "loss": "logistic"},
    "rows in the cache": WHOLE,
    "values of C and folds": {**PART, "C": [0.1, 1.0], "cv": 2},
    "three classes": {**PART, "classes": 3},
    "crammer_singer": {**PART, "classes": 3, "multiclass": "crammer_singer"},
    "probability": {**PART, "probability": "sigmoid", "cv": 2},
    "class weights": {**PART, "class_weight": "balanced"},
    "pairs": {**PART, "features": ["unit", {"pairs": {"bits": 12}}], "width": 30},
    "fourier": {**PART, "features": [{"fourier": {"dimension": 64, "gamma": 0.01}}]},
    "dual with maps": {**WHOLE, "solver": "dcd", "features": ["scale", "unit"]},
    "memory": {"memory_bytes": 400 << 20},
    "bsca": {"kernel": "rbf", "budget": 400},
    "bsca adaptive": {"kernel": "rbf", "budget": 400, "solver_options": {"selection": "adaptive"}},
    "bsca in memory": {"kernel": "rbf", "budget": 400, "memory_bytes": 600 << 20},
    "bsgd": {"kernel": "rbf", "solver": "bsgd", "budget": 400},
}  # fmt: skip


def found(way, threads):
    """All numbers of the model that such a job makes, and of its certificate."""
    rng, way = np.random.default_rng(0), dict(way)
    X = rng.standard_normal((N_ROWS, way.pop("width", WIDTH))).astype(np.float32)
    scores = X @ rng.standard_normal((X.shape[1], way.pop("classes", 2))) + 3 * rng.standard_normal((N_ROWS, 1))
    is_regression = way.get("loss") in REGRESSION
    made = (StreamSVR if is_regression else StreamSVC)(**way, pace="fixed", threads=threads, max_passes=3)
    made.fit(X, scores[:, 0] if is_regression else scores.argmax(axis=1))
    figures = made.decision_function(X) if hasattr(made, "decision_function") else made.predict(X)
    weights = getattr(made, "coef_", figures)
    return weights.tobytes(), figures.tobytes(), made.certificate_, made.n_iter_


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_threads_change_no_byte(way):
    assert found(way, 3) == found(way, 1)


def test_nor_does_any_number_of_them():
    way = WAYS["values of C and folds"]
    alone = found(way, 1)
    assert all(found(way, threads) == alone for threads in (2, 7))
