"""The score on the rows of training, which every model has, is that of an evaluation on these rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.svm import LinearSVC

from streamsvm import StreamSVC, StreamSVR
from streamsvm.reader.certificate.final_pass import TrainingScores
from streamsvm.reader.certificate.kept_values import LARGEST_FILE, LargestValues, joint_accuracy
from streamsvm.trainer.problem.tasks import Task, Tasks
from tests.contracts.objectives import numbered_rows

N_ROWS, EXACT = 300, {"rel": 1e-12}


def rows(n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 8)).astype(np.float32)
    values = X @ rng.normal(size=(8, n_classes)) + rng.normal(size=(N_ROWS, n_classes))
    return X, values.argmax(axis=1), rng.lognormal(0.0, 1.0, N_ROWS)


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize(
    ("n_classes", "parameters"),
    [
        (2, {}),
        (2, {"loss": "logistic", "features": ["scale"]}),
        (2, {"solver": "dcd", "bias": None}),
        (4, {}),
        (4, {"class_weight": "balanced"}),
        (4, {"multiclass": "crammer_singer"}),
        (2, {"multiclass": "crammer_singer"}),
        (17, {}),  # more classes than run side by side, and solvers that train one at a time
        (4, {"solver": "dcd", "bias": None}),
        (3, {"kernel": "rbf", "solver": "bsca", "budget": 50}),
        (2, {"kernel": "rbf", "solver": "bsca", "budget": 50}),
    ],
)
def test_accuracy(n_classes, parameters):
    X, y, _ = rows(n_classes)
    model = StreamSVC(**{"max_passes": 5, "tolerance": None, "relative_gap": None} | parameters).fit(X, y)
    assert model.training_score_["metric"] == "accuracy" and model.training_score_["rows"] == "training"
    assert model.training_score_["value"] == pytest.approx(accuracy_score(y, model.predict(X)), **EXACT)


@pytest.mark.parametrize("n_classes", [2, 3, 17])
def test_rows_count_by_their_weights(n_classes):
    X, y, weight = rows(n_classes)
    model = StreamSVC().fit(X, y, weight)
    expected = accuracy_score(y, model.predict(X), sample_weight=weight)
    assert model.training_score_["value"] == pytest.approx(expected, **EXACT)
    assert {lane["training"]["accuracy"] for lane in model.model_.about.get("lanes", ())} <= {
        model.training_score_["value"]
    }


def test_numbers():
    X, _, weight = rows()
    y = (X @ np.arange(8.0) + np.random.default_rng(1).normal(size=N_ROWS)).astype(np.float32)
    model = StreamSVR(epsilon=0.1).fit(X, y)
    assert model.training_score_["metric"] == "r2"
    assert model.training_score_["value"] == pytest.approx(r2_score(y, model.predict(X)), rel=1e-9)
    model = StreamSVR(epsilon=0.1).fit(X, y, weight)
    assert model.training_score_["value"] == pytest.approx(
        r2_score(y, model.predict(X), sample_weight=weight), rel=1e-9
    )
    assert StreamSVR().fit(X, np.ones(N_ROWS)).training_score_ is None


def test_each_of_several_values_of_C_has_its_own_and_rows_held_out_come_first():
    X, y, _ = rows(3)
    each = [StreamSVC(C=C).fit(X, y).training_score_["value"] for C in (1e-3, 1.0)]
    assert len(set(each)) == 2
    chosen = StreamSVC([1e-3, 1.0], validation=0.2).fit(X, y)
    assert chosen.training_score_ is None and chosen.held_out_score_["rows"] == "held_out"
    lanes = chosen.model_.about["lanes"]
    assert {lane["fold"] for lane in lanes} == {None}
    assert lanes[0]["training"]["accuracy"] == pytest.approx(each[[1e-3, 1.0].index(chosen.C_)], abs=0.02)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_approximate_leave_one_out_is_near_that_of_models_without_each_row(loss, n_classes):
    X, y, _ = rows(n_classes)
    X, y = X[:100], y[:100]
    model = StreamSVC(100.0, loss=loss, bias=None, relative_gap=1e-8).fit(X, y)
    assert model.training_score_["rows"] == "left_out"
    own = {"C": 100.0, "fit_intercept": False, "tol": 1e-6, "max_iter": 10**5}
    right = 0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        values = []
        for label in range(n_classes):
            svm = LogisticRegression(**own) if loss == "logistic" else LinearSVC(**own, dual=False)
            values.append(svm.fit(X[rest], y[rest] == label).decision_function(X[i : i + 1])[0])
        right += np.argmax(values) == y[i]
    assert model.training_score_["value"] == pytest.approx(right / len(y), abs=0.011)
    assert accuracy_score(y, model.predict(X)) > right / len(y)


def test_hinge_loss_is_not_smooth_enough_for_leave_one_out():
    X, y, _ = rows()
    model = StreamSVC(100.0, relative_gap=1e-8).fit(X, y)
    assert any(record.get("newton") for record in model.history_) and model.training_score_["rows"] == "training"


@pytest.mark.parametrize("n_runs", [1, 2, 3])
def test_runs_of_some_classes_each_say_together_how_good_their_model_is(tmp_path, n_runs):
    given = numbered_rows("hinge", seed=2)
    values = np.random.default_rng(1).integers(-2, 3, size=(len(given), 3)).astype(float)  # with equal ones
    parts = []
    for run, classes in enumerate(np.array_split(np.arange(3), n_runs)):
        each = tuple(Task(positive, None, 1.0, 1.0) for positive in classes.tolist())
        tasks, directory = Tasks("hinge", each, labels=(0.0, 1.0, 2.0, 3.0)), tmp_path / str(run)
        directory.mkdir()
        LargestValues(directory, len(given), tasks).add(given, values[:, classes])
        assert {path.name for path in directory.iterdir()} == {f"{LARGEST_FILE}.0.{len(classes)}"}
        parts += directory.glob(f"{LARGEST_FILE}.0.*")
    weight = given.weight if len(given.weight) else np.ones(len(given))
    expected = accuracy_score(given.class_code, values.argmax(axis=1), sample_weight=weight)
    assert joint_accuracy(parts, len(given), weight.sum()) == pytest.approx(expected, **EXACT)


def test_tasks_of_a_run_make_models_by_their_C():
    table = [Task(positive, fold, 2.0 * C, C) for positive in (2, 0, 1) for C in (1.0, 3.0) for fold in (None, 1)]
    tasks = Tasks("hinge", (*table, Task(1, None, 5.0, 5.0)), labels=(0.0, 1.0, 2.0), n_folds=2)
    found, given = TrainingScores(tasks), numbered_rows("hinge", seed=1)
    values = np.random.default_rng(0).normal(size=(len(given), tasks.width))
    found.add(given, values)
    for first in (0, 2):
        columns = [4 + first, 8 + first, first]  # of classes 0, 1 and 2
        right = given.class_code == values[:, columns].argmax(axis=1)
        weight = given.weight if len(given.weight) else np.ones(len(given))
        assert found.scores[columns] == pytest.approx(right @ weight / weight.sum(), **EXACT)
    assert np.isnan(found.scores[1::2]).all() and np.isnan(found.scores[12])
