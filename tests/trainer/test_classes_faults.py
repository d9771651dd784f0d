"""All classes in one problem, when things break: the same bytes after a kill, alpha and w that belong together."""

import itertools
from functools import partial

import numpy as np
import pytest

import streamsvm.reader.stream.arrivals
from streamsvm.storage.run.checkpoint import newest_checkpoint
from tests.contracts.problems import in_small_pieces, make_dataset
from tests.contracts.solver import solving
from tests.trainer.test_classes import JOINT, check, primal_and_dual
from tests.trainer.test_lanes import classes, stored
from tests.trainer.test_refusing_disk import Clocked, Looking, Refusing
from tests.trainer.test_resume import DoomedBetweenSweeps, Job, check_it_is_not_trained_on, with_other_weights
from tests.trainer.test_sample_weights import weighted
from tests.training import Turns, solvers_with

N_CLASSES, REFUSALS = 5, 6
FOLD = {"folds": 2, "number": 1}


WEIGHT = np.random.default_rng(1).choice([0.0, 0.5, 2.5], 500)
dataset = in_small_pieces(lambda directory: make_dataset(directory, *classes(N_CLASSES, 500)))
heavy = in_small_pieces(lambda directory: weighted(directory, *classes(N_CLASSES, 500), WEIGHT))


@pytest.fixture(autouse=True)
def several_sections_a_pass(monkeypatch):
    monkeypatch.setattr(streamsvm.reader.stream.arrivals, "SECTION_PIECES", 7)


@pytest.mark.parametrize(
    ("name", "way"),
    [("dataset", {"holds_all": True}), ("heavy", {}), ("heavy", {"bias": 1.0, "threads": 1}), ("dataset", FOLD)],
    ids=str,
)
def test_fixed_pace_ends_in_the_same_bytes(tmp_path, request, name, way):
    data = request.getfixturevalue(name)
    settings = {**JOINT, **way, "updates_per_row": 3}
    undisturbed = Job(tmp_path / "undisturbed", data, **settings).attempt()
    job = Job(tmp_path / "disturbed", data, **settings)
    for killed_at, before in [(2, False), (1, True), (4, False), (3, True)]:
        assert job.attempt(killed_at, before) is None
    found = job.attempt()
    assert found.alpha.tobytes() == undisturbed.alpha.tobytes()
    assert found.w.tobytes() == undisturbed.w.tobytes()
    assert found.result == undisturbed.result


@pytest.mark.parametrize("way", [{"on_disk": True}, {"holds_all": True}, {"on_disk": True, "threads": 2}], ids=str)
def test_a_job_that_dies_between_sweeps_goes_on_with_what_it_had(tmp_path, dataset, way):
    job = Job(tmp_path, dataset, **JOINT, **way, pace="adaptive", relative_gap=1e-7, max_passes=1000)
    assert job.train(partial(DoomedBetweenSweeps, 7)) is None
    kept = newest_checkpoint(job.checkpoints)
    X, labels, _ = stored(dataset)
    P, D, w_error = primal_and_dual(X, labels, kept["alpha"], kept["w"], 1.0)
    assert w_error <= 1e-9 and P > D > 0
    found = job.train(Turns)
    check(found, X, labels)


def of_another_sum(arrays):
    arrays["alpha"][7, 0] -= 1e-6  # it is not 0 any more


@pytest.mark.parametrize("pace", ["fixed", "adaptive"])
@pytest.mark.parametrize("change", [with_other_weights, of_another_sum])
def test_a_checkpoint_that_does_not_hold_is_not_trained_on(tmp_path, dataset, pace, change):
    check_it_is_not_trained_on(Job(tmp_path, dataset, **JOINT, pace=pace), change)


@pytest.mark.parametrize("seed", range(REFUSALS))
def test_a_disk_that_refuses_costs_time_only(tmp_path, dataset, seed):
    rng = np.random.default_rng((seed, 2))
    disk, looking = Refusing(rng), Looking(rng)
    X, labels, _ = stored(dataset)
    settings = {**JOINT, "pace": "adaptive", "tolerance": None, "threads": 1 + seed % 2, "seed": seed}
    link, solvers = partial(Clocked, float(rng.choice([0.25, 0.5, 1.0]))), solvers_with(disk.rows)
    with solving(
        tmp_path / "run", dataset, link=link, slots=looking, solvers=solvers, updates_per_row=6, **settings
    ) as now:

        def look(*_):
            """After every sweep, and of what is kept."""
            w_error = primal_and_dual(X, labels, now.alpha, now.w, 1.0)[2] if now.w.any() else 0.0
            assert w_error <= 1e-9

        looking.look = looking.check = look
        for progress in itertools.islice(now.passes, 400):
            P, D, w_error = primal_and_dual(X, labels, now.alpha, now.w, 1.0)
            assert w_error <= 1e-9
            assert progress.dual_objective == pytest.approx(D, rel=1e-9)
            room = np.where(np.unique(labels) == labels[:, None], 1.0, 0.0) - now.alpha[:, :N_CLASSES]
            assert progress.free_rows == np.count_nonzero((room > 0).sum(axis=1) > 1)
            assert progress.primal_bound * (1 + 1e-12) >= D and P * (1 + 1e-12) >= D
            if P - D <= 1e-5 * P:
                break
        assert P - D <= 1e-5 * P
    assert all(file.is_closed for file in disk.files)
    assert disk.has_refused or looking.sweeps > 10
