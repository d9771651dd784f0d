"""Jobs that end by Newton steps, from the cache and from disk, and after kills; history says how they went."""

import json
import shutil
from functools import partial
from itertools import groupby

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

from streamsvm.storage.run.checkpoint import SLOTS, newest_checkpoint, write_checkpoint
from streamsvm.storage.run.state import SOLVER_PHASES
from streamsvm.trainer.newton.choice import LEAST_SWEEPS
from streamsvm.trainer.newton.phase import NewtonPhase
from tests.contracts.problems import make_dataset
from tests.trainer.test_resume import DoomedBetweenSweeps, Job
from tests.training import Turns, train

OPTIMUM = 49.95902  # of breast_cancer as it is, with a bias, C = 1
SETTINGS = {"pace": "adaptive", "bias": 1.0, "tolerance": None, "relative_gap": 1e-6, "max_passes": 60}
WAYS = {"in the cache": {"holds_all": True}, "on disk": {"on_disk": True}, "threads": {"on_disk": True, "threads": 2}}
everywhere = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    X, y = load_breast_cancer(return_X_y=True)
    X = sparse.csr_matrix(X.astype(np.float32))
    return make_dataset(tmp_path_factory.mktemp("data") / "data", X, np.where(y > 0, 1.0, -1.0))


def cache_of(way):
    return 4 << 20 if "holds_all" in way else 1 << 17


@everywhere
def test_a_table_as_it_is_converges(tmp_path, dataset, way):
    found = train(tmp_path / "run", dataset, cache_of(way), **SETTINGS, **way)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["primal_objective"] == pytest.approx(OPTIMUM, abs=1e-4)
    assert certificate["w_error"] <= 1e-9
    assert found.alpha.min() >= 0.0 and found.alpha.max() <= 1.0
    # The history has its steps: far fewer than sweeps would be.
    assert 5 < len(steps_of(found)) < 200


def steps_of(found):
    return [step for done in found.passes for step in done.get("newton", ())]


def test_history_tells_newton_steps_from_sweeps(tmp_path, dataset):
    found = train(tmp_path / "run", dataset, 4 << 20, **SETTINGS, holds_all=True)
    sweeps, steps = found.passes[0]["sweeps"], steps_of(found)
    assert len(sweeps) == found.state.control["sweeps_made"] >= LEAST_SWEEPS
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    scans = [step["scans"] for step in steps]
    assert scans[0] == 4 and set(np.diff(scans)) <= {2}  # two scans come before the first step
    assert all(0 < step["system_rows"] <= 569 and step["sigma"] > 0.0 for step in steps)
    assert steps[-1]["sigma"] > steps[0]["sigma"]
    assert sweeps[-1]["elapsed_seconds"] <= steps[0]["elapsed_seconds"]
    assert steps[-1]["dual_objective"] <= found.result["certificate"]["primal_objective"]
    control = found.state.control
    last = tuple(steps[-1][name] for name in ("step", "scans", "system_rows", "sigma"))
    assert last == tuple(control[name] for name in ("newton_steps", "scans", "system_rows", "sigma"))


def test_each_lane_has_its_system_as_long_as_it_takes_part(tmp_path, dataset):
    found = train(tmp_path / "run", dataset, 4 << 20, **SETTINGS, holds_all=True, folds=2, lanes=True)
    assert {result["stop_reason"] for result in found.results} == {"relative_gap"}
    steps = steps_of(found)
    assert all([lane["lane"] for lane in step["lanes"]] == [0, 1, 2] for step in steps)
    for step in steps:
        taking_part = [lane["system_rows"] for lane in step["lanes"] if lane["system_rows"] is not None]
        assert taking_part and step["system_rows"] == max(taking_part)
    assert len({step["lanes"][1]["sigma"] for step in steps}) > 2
    assert any(None in [lane["sigma"] for lane in step["lanes"]] for step in steps)


def test_a_smooth_loss_has_no_sigma(tmp_path, dataset):
    settings = {**SETTINGS, "loss": "logistic", "relative_gap": 1e-4}
    found = train(tmp_path / "run", dataset, 4 << 20, **settings, holds_all=True)
    assert {step["sigma"] for step in steps_of(found)} == {None}
    json.dumps(steps_of(found), allow_nan=False)


def test_a_running_job_says_its_phase(tmp_path, dataset):
    seen = []

    class Looking(Turns):
        """Notes the phase whenever figures are shown."""

        def show(self, progress):
            super().show(progress)
            seen.append(SOLVER_PHASES[int(self.control["solver_phase"]) - 1])

        def has_committed(self, number):
            seen.append(SOLVER_PHASES[int(self.control["solver_phase"]) - 1])
            return super().has_committed(number)

    train(tmp_path / "run", dataset, 1 << 17, link=Looking, on_disk=True, **SETTINGS)
    assert [phase for phase, _ in groupby(seen)] == ["stream", "sweep", "newton"]


@everywhere
def test_a_job_that_dies_within_goes_on_to_the_same_optimum(tmp_path, dataset, way):
    """Killed after so many sweeps and steps; a checkpoint follows each of them."""
    job = Job(tmp_path, dataset, **SETTINGS, **way)
    for killed_at in (24, 12):
        assert job.train(partial(DoomedBetweenSweeps, killed_at)) is None
        kept = newest_checkpoint(job.checkpoints)
        assert kept["alpha"].min() >= 0.0 and kept["alpha"].max() <= 1.0
    control, ((_, sigma, *_),) = kept.about["control"], kept["newton"]
    assert control["newton_steps"] > 20 and len(kept["newton_w_0"]) == len(kept["w"])
    found = job.attempt()
    # It goes on with the next step, at the same sigma; no sweep comes before.
    steps = steps_of(found)
    assert (steps[0]["step"], steps[0]["sigma"]) == (control["newton_steps"] + 1, sigma)
    assert all("sweeps" not in done for done in found.passes)
    assert found.state.control["sweeps_made"] >= LEAST_SWEEPS
    assert found.result["stop_reason"] == "relative_gap"
    assert found.result["certificate"]["primal_objective"] == pytest.approx(OPTIMUM, abs=1e-4)
    assert found.result["certificate"]["w_error"] <= 1e-9


def test_an_older_checkpoint_knows_of_no_steps(tmp_path, dataset):
    job = Job(tmp_path, dataset, **SETTINGS, on_disk=True)
    assert job.train(partial(DoomedBetweenSweeps, 20)) is None
    kept = newest_checkpoint(job.checkpoints)
    arrays = {name: array for name, array in kept.arrays().items() if not name.startswith("newton")}
    new = {"sweeps_made", "newton_steps", "scans", "system_rows", "sigma", "solver_phase"}
    control = {name: value for name, value in kept.about["control"].items() if name not in new}
    for slot in SLOTS:
        (job.checkpoints / slot).unlink(missing_ok=True)
    write_checkpoint(job.checkpoints / SLOTS[0], {**kept.about, "control": control}, arrays)
    found = job.attempt()
    assert found.result["stop_reason"] == "relative_gap"
    assert len(found.passes[0]["sweeps"]) >= LEAST_SWEEPS and steps_of(found)[0]["step"] == 1


def test_a_job_that_goes_on_to_a_farther_end_begins_with_newton_steps(tmp_path, dataset):
    near, far = ({**SETTINGS, "relative_gap": gap} for gap in (1e-3, 1e-8))
    assert Job(tmp_path, dataset, **near, on_disk=True).attempt().result["stop_reason"] == "relative_gap"
    shutil.rmtree(tmp_path / "run")
    found = Job(tmp_path, dataset, **far, on_disk=True).attempt()
    assert found.result["certificate"]["relative_duality_gap"] <= 1e-8
    assert steps_of(found) and all("sweeps" not in done for done in found.passes)


def test_without_a_target_there_are_sweeps_alone(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr(NewtonPhase, "run", None)
    settings = {**SETTINGS, **WAYS["in the cache"], "relative_gap": None, "max_passes": 1}
    found = train(tmp_path / "run", dataset, cache_of(settings), **settings)
    assert found.result["stop_reason"] == "max_passes"
