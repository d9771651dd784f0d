"""What comes from several machines at the end: rows held out, as one machine would judge them, alpha, and the model."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

from streamsvm.reader.certificate.kept_values import read_held_out, read_weights
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.cluster.dataset.shards import deal
from streamsvm.service.cluster.process import bring_alpha, bring_held_out
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.runner import lane_outcome
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.processes.launch import cluster_run
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.run.state import open_state
from streamsvm.trainer.problem.row_encoder import fold_of
from tests.contracts.problems import libsvm_text, make_dataset, random_problem, stored_rows, weighted_text
from tests.service.cluster.coordinating import coordinate, input_w

FOLDS, SEED, N_ROWS, BLOCKS = 3, 5, 400, 4
BASE = InputOptions(index_base=1)


def in_blocks(directory, text):
    """A dataset of so many blocks: rows that are added make new ones."""
    lines = text.splitlines(keepends=True)
    first, *others = (b"".join(lines[k::BLOCKS]) for k in range(BLOCKS))
    ingest([first], directory, BASE)
    for part in others:
        append_rows([part], directory, BASE, InputLimits(), threads=1)
    return directory


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    X, y = random_problem(N_ROWS, 80)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, N_ROWS)
    classes = np.argmax(X @ np.random.default_rng(2).normal(size=(80, 3)), axis=1)
    texts = {"two": libsvm_text(X, y), "three": libsvm_text(X, classes), "weights": weighted_text(X, y, weight)}
    return {name: in_blocks(tmp_path_factory.mktemp("data") / name, text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("name", "loss", "C", "at_once", "machines"),
    [
        ("two", "hinge", [0.1, 1.0], None, 2),
        ("two", "squared_hinge", [0.1, 1.0], None, 3),
        ("two", "squared_hinge", [0.1, 1.0], 1, 2),
        ("three", "hinge", [0.3], None, 2),
        ("weights", "hinge", [0.1, 1.0], None, 2),
        ("weights", "hinge", [0.1, 1.0], 1, 3),
    ],
)
def test_they_are_those_of_one_machine(datasets, tmp_path, name, loss, C, at_once, machines):
    wanted = {"C": C, "loss": loss, "folds": FOLDS, "seed": SEED, "relative_gap": 1e-9, "max_passes": 5000}
    run = tmp_path / "run"
    run.mkdir()

    def after(threads, plan, _done):
        bring_held_out(threads, run, plan.n_rows, plan.places_with_folds, lambda: None)

    *_, plan = coordinate(datasets[name], tmp_path, machines, at_once=at_once, after=after, **wanted)
    rows, _ = stored_rows(datasets[name])
    X = sparse.csr_matrix((rows.values, rows.indices, rows.indptr))
    fold = fold_of(np.arange(N_ROWS), FOLDS, SEED)
    assert len(plan.places_with_folds) == (at_once or sum(lane.fold is not None for lane in plan.lanes))
    for place in plan.places_with_folds:
        lane = plan.running[place]
        sign, left = np.where(rows.label == lane.positive, 1.0, -1.0), fold != lane.fold
        ids, target, values = read_held_out(run, N_ROWS, place)
        np.testing.assert_array_equal(ids, np.flatnonzero(~left))
        np.testing.assert_array_equal(np.sign(target), sign[ids])
        svm = LinearSVC(loss=loss, C=lane.C, fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6)
        svm.fit(X[left], sign[left], None if rows.weight is None else rows.weight[left])
        np.testing.assert_allclose(values, svm.decision_function(X[ids]), atol=1e-3)
    weight = read_weights(run, N_ROWS)
    assert (weight is None) == (rows.weight is None)
    if weight is not None:
        ids = np.flatnonzero(np.isin(fold, [plan.running[place].fold for place in plan.places_with_folds]))
        np.testing.assert_array_equal(weight[ids], rows.weight[ids])


@pytest.mark.parametrize("C", [1.0, [1.0, 10.0]])
def test_the_dual_variables_of_all_rows_make_w(datasets, tmp_path, C):
    found = []

    def after(threads, plan, _done):
        found.append(np.full((N_ROWS, plan.tasks.width), np.nan))
        bring_alpha(threads, [shard.rows for shard in deal(plan.manifest, 3)], found[0], lambda: None, piece_rows=70)

    done, _, plan = coordinate(datasets["two"], tmp_path, 3, after=after, C=C)
    rows, _ = stored_rows(datasets["two"])
    X = sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (N_ROWS, plan.width))
    for place, lane in enumerate(plan.running):
        alpha, w = (each[:, place] for each in (found[0], done.w))
        y = np.where(rows.label == lane.positive, 1.0, -1.0)
        assert 0 <= alpha.min() < alpha.max() <= lane.C * (1 + 1e-12)
        np.testing.assert_allclose(X.T @ (alpha * y), w, atol=1e-5)


@pytest.mark.parametrize("bias", [None, 1.0])
def test_a_model_has_the_weights_of_the_run(tmp_path, monkeypatch, bias):
    monkeypatch.setattr("streamsvm.service.processes.launch.check_machines", lambda *_: None)
    data, run = make_dataset(tmp_path / "data", *random_problem(60, 9)), tmp_path / "run"
    manifest = read_manifest(data)
    plan = plan_job(parse_spec({"dataset": "data", "machines": 2, "bias": bias}), manifest)
    cluster_run(plan, run, tmp_path, data, "job", Settings.from_environment(), None, None)
    state = open_state(run, plan.n_rows, plan.width, plan.tasks.width)
    state.w[:] = np.arange(1.0, plan.width + 1.0).reshape(state.w.shape)
    model = lane_outcome(plan, data, run, [{}])
    np.testing.assert_array_equal(model.w, input_w(data, state.w.ravel()[: manifest.width]))
    assert model.w_bias == (0.0 if bias is None else plan.width)
