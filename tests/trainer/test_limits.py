"""A job ends within a pass that goes on for long: what it leaves is certified, and a checkpoint goes on from there."""

import numpy as np
import pytest

import streamsvm.trainer.updates.limits as limits_module
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.trainer.solvers import SOLVERS
from streamsvm.trainer.updates.limits import GRACE_SECONDS, JobLimits
from tests.contracts.problems import in_small_pieces, make_dataset, random_problem
from tests.contracts.solver import PLAIN, cache_for, is_sound, name_of
from tests.training import Turns, train

OTHERS = [
    {"solver": name, **({"budget": 20} if solver.has_kernel else {})}
    for name, solver in SOLVERS.items()
    if not solver.is_dual
]
WAYS = [*PLAIN, *OTHERS, {"solver": "pegasos", "update": "block"}]


dataset = in_small_pieces(lambda directory: make_dataset(directory, *random_problem(500)))


class Late(Turns):
    """A link whose job has to end when that has been asked `after` times."""

    after = 0
    asked = 0

    @property
    def has_to_end(self):
        self.asked += 1
        return self.asked > self.after


@pytest.mark.parametrize(("after", "pace"), [(0, "adaptive"), (7, "fixed")])
@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_a_job_ends_where_it_is(tmp_path, dataset, way, after, pace):
    late = type("LateThen", (Late,), {"after": after})
    settings = {**way, "pace": pace, "tolerance": None, "max_seconds": 1e-9, "max_passes": 1000, "C": 0.1}
    found = train(tmp_path / "run", dataset, cache_for(way), link=late, **settings)
    assert found.result["stop_reason"] == "max_seconds" and not found.result["converged"]
    certificate = found.result["certificate"]
    primal, dual = certificate["primal_objective"], certificate["dual_objective"]
    assert np.isfinite(primal) and not dual > primal
    assert len(found.passes) <= 1


@pytest.mark.parametrize("way", [way for way in PLAIN if is_sound(way)], ids=name_of)
def test_another_job_goes_on_from_there(tmp_path, dataset, way):
    """To as good an end as a job that nobody disturbed."""
    settings = {**way, "tolerance": 1e-3, "max_passes": 10, "C": 0.1, "checkpoints": tmp_path / "kept"}
    (tmp_path / "kept").mkdir()
    late = type("LateThen", (Late,), {"after": 60})
    train(tmp_path / "first", dataset, cache_for(way), link=late, max_seconds=1e-9, **settings)
    assert newest_checkpoint(tmp_path / "kept")
    found = train(tmp_path / "second", dataset, cache_for(way), **settings)
    settings.pop("checkpoints")
    undisturbed = train(tmp_path / "whole", dataset, cache_for(way), **settings)
    ends = [each.result["certificate"]["primal_objective"] for each in (found, undisturbed)]
    assert ends[0] <= 1.25 * ends[1] + 1e-9
    assert found.result["certificate"]["w_error"] < 1e-9


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def limits(control, clock, max_seconds=10.0, first_is_whole=False):
    return JobLimits({"stop": 0, "finished_passes": 0, **control}, clock, max_seconds, first_is_whole, clock)


def test_a_pass_that_ends_soon_is_waited_for():
    clock = Clock()
    found = limits({}, clock)
    for seconds, reason, has_passed in [
        (0.0, None, False),
        (10.0, "max_seconds", False),
        (9.9 + GRACE_SECONDS, "max_seconds", False),
        (10.0 + GRACE_SECONDS, "max_seconds", True),
    ]:
        clock.seconds = seconds
        assert (found.reason, found.has_passed) == (reason, has_passed)


def test_who_asks_for_an_end_waits_no_longer_than_that():
    clock = Clock()
    found = limits({"stop": 1}, clock, max_seconds=None)
    clock.seconds = 100.0
    assert (found.reason, found.has_passed) == ("stopped", False)
    clock.seconds += GRACE_SECONDS
    assert (found.reason, found.has_passed) == ("stopped", True)


def test_lanes_of_a_job_have_one_pass_each_at_least():
    clock = Clock()
    clock.seconds = 1000.0
    assert not limits({}, clock, first_is_whole=True).has_passed
    assert limits({"finished_passes": 1}, clock, first_is_whole=True).has_passed
    asked = limits({"stop": 1}, clock, first_is_whole=True)
    assert not asked.has_passed
    clock.seconds += GRACE_SECONDS
    assert asked.has_passed


@pytest.mark.parametrize("solver", ["dcd", "bsca", "streamsvm"])
def test_time_ends_a_pass(tmp_path, dataset, solver, monkeypatch):
    """Without anything put in the place of the clock."""
    monkeypatch.setattr(limits_module, "GRACE_SECONDS", 0.0)
    kernel = {"kernel": "rbf", "gamma": 1.0} if solver == "bsca" else {}
    settings = {"solver": solver, "pace": "adaptive", "tolerance": None, "max_seconds": 1e-9, **kernel}
    found = train(tmp_path / "run", dataset, 1 << 20, **settings)
    assert (found.result["stop_reason"], found.result["passes"]) == ("max_seconds", 0)
