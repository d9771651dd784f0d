"""Training with the active set on disk: the same optimum in fewer passes, every row visited in each of them."""

from types import SimpleNamespace

import numpy as np
import pytest

import reader.arrivals
import service.problem
import storage.spill_file
import trainer.disk_pace
import trainer.momentum
import trainer.process
import trainer.solvers.active_set
import trainer.steps
from reader.arrivals_kernel import HELD, NEW, account
from storage.state import SPILLED
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, exact
from tests.training import train
from trainer.momentum import Momentum
from trainer.problem import LOSSES
from trainer.solvers.active_set import ActiveSet


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Many free rows. Several times what the cache holds."""
    return make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(1500, noise=0.1))


@pytest.fixture
def spills(monkeypatch):
    """Also at pace "fixed": reader and trainer take turns here, and there is no time to spare."""
    monkeypatch.setattr(service.problem, "spills", lambda spec: True)
    steps = trainer.process.Steps
    monkeypatch.setattr(
        trainer.process, "Steps", lambda cache, state, deferred, *rest: steps(cache, state, False, *rest)
    )


@pytest.fixture(autouse=True)
def the_clock_decides_nothing(monkeypatch):
    for share in ("_LAST_SHARE", "_LAST_SHARE_UNBOUND"):
        monkeypatch.setattr(trainer.solvers.active_set, share, np.inf)
    monkeypatch.setattr(trainer.disk_pace, "_TOO_SLOW", np.inf)


@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_finds_the_optimum(tmp_path, dataset, spills, loss, C):
    settings = {"loss": loss, "C": C, "tolerance": None, "relative_gap": 1e-6, "max_passes": 300}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, **settings)
    assert found.result["converged"]
    check_certificate(found, exact(dataset, loss=loss, C=C))


def test_it_takes_fewer_passes(tmp_path, dataset, monkeypatch):
    settings = {"C": 10.0, "tolerance": None, "max_passes": 5}
    without = train(tmp_path / "without", dataset, SMALLEST_CACHE, **settings)
    monkeypatch.setattr(service.problem, "spills", lambda spec: True)
    found = train(tmp_path / "with", dataset, SMALLEST_CACHE, **settings)
    gaps = [run.result["certificate"]["relative_duality_gap"] for run in (found, without)]
    assert gaps[0] < gaps[1] / 3


@pytest.mark.parametrize("wanted", [{"tolerance": 0.1}, {"tolerance": None, "relative_gap": 1e-3}])
def test_two_passes_are_enough(tmp_path, dataset, spills, wanted):
    """The sweeps say that it is worth a look, and the certificate that it is so."""
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, **wanted)
    assert found.result["converged"] and len(found.passes) <= 2
    certificate = found.result["certificate"]
    if "relative_gap" in wanted:
        assert certificate["relative_duality_gap"] <= 1e-3
    else:
        assert certificate["gap"] <= 0.1


def test_every_row_is_visited_in_every_pass(tmp_path, dataset, spills):
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=None, max_passes=6)
    assert [done["rows_unvisited"] for done in found.passes] == [0] * 6


def test_what_is_spilled_does_not_come_into_the_cache(tmp_path, dataset, spills, monkeypatch):
    kinds = {}

    def watching(row_id, kind, indptr, stamp, *books):
        kinds.setdefault(stamp, []).append(kind[: len(row_id)].copy())
        return account(row_id, kind, indptr, stamp, *books)

    monkeypatch.setattr(reader.arrivals, "account", watching)
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=None, max_passes=4)
    by_pass = [np.concatenate(kinds[stamp]) for stamp in (1, 2, 3, 4)]
    n_rows = len(found.alpha)
    assert [len(kind) for kind in by_pass] == [n_rows] * 4
    assert np.all(by_pass[0] == NEW)
    for kind in by_pass[1:]:
        assert np.count_nonzero(kind == HELD) > n_rows / 10
    # What is free at the end is in the active set, or came free in the cache.
    free = (found.alpha > 0) & (found.alpha < 1)
    assert np.mean(found.state.spilled[free] == SPILLED) > 0.9


def test_a_disk_that_fails_in_between_costs_nothing_but_time(tmp_path, dataset, spills, monkeypatch):
    real, reads = storage.spill_file.SpillFile.read, []

    def read(file, number, buffer):
        reads.append(number)
        if len(reads) > 5:
            raise OSError("the disk is gone")
        return real(file, number, buffer)

    monkeypatch.setattr(storage.spill_file.SpillFile, "read", read)
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=1e-3, max_passes=300)
    assert len(reads) > 5 and not found.state.spilled.any()
    assert found.result["stop_reason"] == "tolerance" and found.passes[-1]["rows_unvisited"] == 0
    check_certificate(found, exact(dataset))


def test_momentum_saves_visits(tmp_path, dataset, spills, monkeypatch):
    settings = {"C": 10.0, "tolerance": None, "relative_gap": 1e-6}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, **settings)
    check_certificate(found, exact(dataset, C=10.0))
    monkeypatch.setattr(trainer.momentum, "_LARGEST", 0.0)
    without = train(tmp_path / "without", dataset, SMALLEST_CACHE, **settings)
    assert found.passes[-1]["updates"] < 0.7 * without.passes[-1]["updates"]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_job_that_is_stopped_within_a_sweep_ends_with_the_last_one(tmp_path, dataset, spills, loss, monkeypatch):
    asked = []

    def is_interrupted(steps):
        asked.append(None)
        if len(asked) == 40:
            steps._state.control["stop"] = 1
        return len(asked) >= 40

    monkeypatch.setattr(trainer.steps.Steps, "is_interrupted", property(is_interrupted))
    undone = []
    undo = Momentum.undo
    monkeypatch.setattr(Momentum, "undo", lambda momentum: (undone.append(None), undo(momentum)))
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, C=10.0, loss=loss, tolerance=None, max_passes=50)
    assert found.result["stop_reason"] == "stopped" and undone
    certificate = found.result["certificate"]
    assert certificate["w_error"] < 1e-12
    assert certificate["relative_duality_gap"] > 0
    assert found.alpha.min() >= 0 and (loss != "hinge" or found.alpha.max() <= 10.0)
    assert certificate["dual_objective"] == pytest.approx(found.passes[-1]["dual_objective"], rel=1e-9)
    # Bounds are met to the bit.
    assert np.count_nonzero(found.alpha == 0) > 10


def test_rows_that_have_not_arrived_are_not_asked_about():
    """While a dataset is being read in the state has room for rows that may never come, more than memory holds."""
    arrived, room = 10, 40
    score, spilled = np.full(room, -1.0, np.float32), np.full(room, SPILLED, np.uint8)
    score[4:arrived] = 1.0  # they rest
    steps = SimpleNamespace(step=SimpleNamespace(n_rows=arrived), score=score, spilled=spilled)
    settings = SimpleNamespace(tolerance=None, relative_gap=1e-3, max_seconds=None)
    active = ActiveSet(settings, steps, None, None, SimpleNamespace(n_rows=arrived), None, None, None)
    active._slack = 0.1
    assert active._is_worth_narrowing()
    score[:arrived] = -1.0
    assert not active._is_worth_narrowing()
