"""What is said of epochs of kernel machines, and that they are those of a job."""

import pytest

from tests.bench import jobs
from tests.bench.machines.data import Problem
from tests.bench.papers import bsca
from tests.bench.papers.bsca import ADAPTIVE, LEVELS, LOOKUP, WAYS, Measured, acf_saves, verdicts
from tests.bench.papers.bsca_runs import Epoch, at, cost_to, epochs, level_of, saving
from tests.bench.papers.bsca_stop import end_of
from tests.contracts.problems import random_problem


def run(*objectives, seconds=1.0, merging=0.5):
    """An epoch each: a visit a row, so many seconds."""
    return [
        Epoch(
            number, number, seconds * number, merging * seconds * number, 10 * number, 1.0, 0.0, P, 0.0, 0.8, 0.1, 0.2
        )
        for number, P in enumerate(objectives, 1)
    ]


def small_problem(name="small"):
    X, y = random_problem(300)
    return Problem(name, X.sorted_indices(), y, X[:100].sorted_indices(), y[:100], 4.0, 0.5)


def test_between_two_epochs_the_objective_falls_evenly():
    found = run(100.0, 80.0, 70.0, 90.0, seconds=3.0)
    assert cost_to(found, 75.0, "visits") == pytest.approx(2.5)
    assert cost_to(found, 75.0, "seconds") == pytest.approx(7.5)
    assert cost_to(found, 100.0, "visits") == 1
    assert cost_to(found, 60.0, "visits") is None


def test_a_saving_is_of_the_medians_and_of_no_run_that_did_not_get_there():
    uniform = [run(100.0, 80.0, 60.0, 40.0)] * 3
    fast, slow = run(60.0, 40.0), run(100.0, 100.0)
    assert level_of(uniform, 3) == 60.0
    assert saving(uniform, [fast, slow, fast], 60.0, "visits") == pytest.approx(1 - 1 / 3)
    assert saving(uniform, [fast, slow, slow], 60.0, "visits") is None


def test_epochs_are_those_of_the_job_itself(tmp_path):
    own = small_problem()
    dataset = jobs.ingested(tmp_path / "dataset", own.X, own.y)
    way = {"budget": 40, "candidates": 59, "merge": "lookup"}
    found = epochs(own, dataset, 4, 0, at((4,)), **way)
    job = jobs.train(
        dataset, solver="bsca", C=own.C, gamma=own.gamma, threads=1, tolerance=None, max_passes=4, pace="fixed", **way
    )
    assert [epoch.primal is None for epoch in found] == [True, True, True, False]
    assert found[-1].primal == pytest.approx(job.certificate["primal_objective"], rel=1e-9)
    assert found[-1].merges == job.passes[-1]["merges"] > 0
    assert found[-1].accuracy == job.machine.accuracy(own.X_test, own.y_test)
    assert found[-1].visits == 4.0
    assert 0 < found[-1].merging_share < 1


def measured(golden_seconds, lookup_seconds, adaptive):
    many = LEVELS[-1]
    uniform = run(*range(1000, 1000 - 10 * many, -10), seconds=lookup_seconds, merging=0.2)
    runs = {way: [run(*[1.0] * many, seconds=golden_seconds, merging=0.6)] * 3 for way in WAYS}
    runs |= {"lookup, all": [run(*[1.0] * many, seconds=lookup_seconds, merging=0.1)] * 3}
    runs |= {LOOKUP: [uniform] * 3, ADAPTIVE: [adaptive] * 3}
    return Measured(small_problem("a set"), runs)


def test_savings_are_held_against_those_of_the_paper():
    half = run(*range(1000, 1000 - 20 * LEVELS[-1], -20), seconds=1.0)
    one = measured(2.0, 1.0, half)
    assert one.saved("seconds", LOOKUP) == pytest.approx(0.5)
    assert acf_saves(one, LEVELS[-1], "visits") == pytest.approx(1 - 8 / 15)
    lookup, both, acf = verdicts([one])
    assert lookup.startswith("**Lookup reproduced**")
    assert "92% of merging and 50% of the whole" in lookup
    assert both.startswith("**Lookup with 59 candidates reproduced**: it saved 50% of the whole")
    assert "0.00% of accuracy" in both
    assert acf.startswith("**ACF reproduced**")
    assert "73% of those of golden section search" in acf
    assert "on none of them" in acf


def test_what_is_not_reproduced_is_not_said_to_be():
    never = run(*[1000.0] * LEVELS[-1])
    one = measured(1.1, 1.0, never)
    assert acf_saves(one, LEVELS[-1], "seconds") is None
    lookup, both, acf = verdicts([one])
    assert all("reproduced in part" in sentence for sentence in (lookup, both, acf))
    assert "on a set" in acf


def test_the_levels_are_of_epochs_that_are_run():
    assert max(LEVELS) <= bsca.EPOCHS


def test_the_stop_rule_counts_epochs_in_a_row():
    spreads = [1.0, 0.5, 0.4995, 0.3, 0.3001, 0.3, 0.2]
    assert end_of(spreads, 0.001, 1) == 3
    assert end_of(spreads, 0.001, 2) == 6
    assert end_of(spreads, 0.00001, 2) is None
