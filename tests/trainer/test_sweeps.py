"""Sweeps over all rows, on disk or in the cache: the same optimum in fewer passes, every row visited in each."""

from functools import partial

import numpy as np
import pytest

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.trainer.rows.disk import DiskRows
from tests.contracts.problems import a_dataset, make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, cache_for, exact, name_of, solving
from tests.trainer.disks import SMALL, Disk, refuses
from tests.training import Turns, about_to_begin, open_state_of, solvers_with, train, write_run

WAYS = [{"on_disk": True}, {"on_disk": True, "threads": 2}, {"holds_all": True}, {"holds_all": True, "threads": 2}]
everywhere = pytest.mark.parametrize("way", WAYS, ids=name_of)

# Many free rows. Several times what the smallest cache holds.
dataset = a_dataset(1500, noise=0.1)


def trained(run, dataset, way, **settings):
    """What came out; `way` and `settings` are a job's."""
    return train(run, dataset, cache_for(way), **{"tolerance": None, "max_passes": 300, **way, **settings})


@everywhere
def test_they_take_fewer_passes(tmp_path, dataset, way):
    settings = {"C": 10.0, "max_passes": 4, "updates_per_row": 10}
    found = trained(tmp_path / "with", dataset, way, **settings)
    without = trained(tmp_path / "without", dataset, {}, **settings)
    gaps = [run.result["certificate"]["relative_duality_gap"] for run in (found, without)]
    assert gaps[0] < gaps[1] / 3


@everywhere
@pytest.mark.parametrize("wanted", [{"tolerance": 0.1}, {"relative_gap": 1e-3}])
def test_a_pass_is_enough(tmp_path, dataset, way, wanted):
    """The sweeps say that it is worth a look, and the certificate that it is so."""
    found = trained(tmp_path / "run", dataset, way, updates_per_row=200, **wanted)
    assert found.result["converged"] and len(found.passes) <= 2
    assert found.state.control["sweeps"] < 100
    certificate = found.result["certificate"]
    if "relative_gap" in wanted:
        assert certificate["relative_duality_gap"] <= 1e-3
    else:
        assert certificate["gap"] <= 0.1


@everywhere
def test_a_pass_has_so_many_of_them_and_no_more(tmp_path, dataset, way):
    """Where nothing is wanted, too."""
    found = trained(tmp_path / "run", dataset, way, updates_per_row=30, max_passes=1)
    assert found.state.control["sweeps"] == 30


@everywhere
def test_every_row_is_visited_in_every_pass(tmp_path, dataset, way):
    found = trained(tmp_path / "run", dataset, way, max_passes=6)
    assert [done["rows_unvisited"] for done in found.passes] == [0] * 6


@everywhere
def test_rows_that_rest_are_left_out_of_most_sweeps(tmp_path, way):
    """Of the pass they are found to rest in, too."""
    dataset = make_dataset(tmp_path / "data", *random_problem(2000, 60, 12, noise=0.02))
    sweeps = 11
    found = trained(tmp_path / "run", dataset, way, updates_per_row=sweeps, max_passes=2)
    ends = [done["updates"] for done in found.passes]
    # Three are over all rows.
    assert 3 * 2000 < ends[1] - ends[0] < 0.6 * sweeps * 2000
    if "on_disk" in way:  # one visit on arrival, and the sweeps
        assert ends[0] < 2000 + 0.6 * sweeps * 2000
    assert [done["rows_unvisited"] for done in found.passes] == [0, 0]


@pytest.mark.parametrize("kind", ["read", "append"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_disk_that_fails_in_between_costs_nothing_but_time(tmp_path, dataset, kind, threads):
    """The rest of the job is made by the two loops, as if there had never been a disk."""
    disk = Disk(refuses(kind, 70))
    run = tmp_path / "run"
    settings = {"tolerance": 1e-3, "max_passes": 300, "threads": threads, "updates_per_row": 8}
    write_run(run, dataset, SMALLEST_CACHE, on_disk=True, **settings)
    passes = []
    with about_to_begin(run, solvers=solvers_with(disk.rows)) as (trainer, _):
        while trainer.stop_reason is None:
            passes.append(trainer.step())
        trainer.shutdown()
    assert disk.calls[kind] >= 70 and all(file.is_closed for file in disk.files)
    assert passes[-1]["rows_streamed"] > 1500
    assert trainer.stop_reason == "tolerance" and passes[-1]["rows_unvisited"] == 0
    found, problem = open_state_of(run), exact(dataset)
    assert problem.gap(found.alpha[:, 0], found.w[:, 0]) <= 1e-3


def test_without_all_rows_the_trainer_says_that_it_collects_no_more(tmp_path, dataset):
    """The reader goes by it: rows leave by their scores again."""
    disk, seen = Disk(refuses("append", 9)), []

    class Looking(Turns):
        def has_committed(self, number):
            seen.append(self.control["collects"])
            return super().has_committed(number)

    run = tmp_path / "run"
    write_run(run, dataset, SMALLEST_CACHE, on_disk=True, tolerance=None)
    with about_to_begin(run, Looking, solvers_with(disk.rows)) as (trainer, _):
        trainer.step()
        trainer.shutdown()
    assert seen[0] == 1 and seen[-1] == 0 and sorted(seen, reverse=True) == seen
    assert np.count_nonzero(seen) < len(seen) - 2


def test_what_a_sweep_finds_at_rest_the_next_leaves_out_at_any_pace(tmp_path, dataset):
    """Of pace "fixed" the reader is told later, and has no part in this."""
    settings = {"on_disk": True, "updates_per_row": 9, "max_passes": 3}
    late = trained(tmp_path / "late", dataset, settings)
    at_once = trained(
        tmp_path / "at once", dataset, settings, link=lambda turn, state, _, *rest: Turns(turn, state, False, *rest)
    )
    assert late.passes[-1]["updates"] == at_once.passes[-1]["updates"]
    assert late.alpha.tobytes() == at_once.alpha.tobytes()


def test_momentum_yields_for_a_sweep_when_the_dual_objective_has_fallen(tmp_path):
    """And for that one only. It falls where there are few features."""
    dataset = make_dataset(tmp_path / "data", *random_problem(400, 5, 4, 0.1))
    begins, ends, D = [], [], []

    class Watched(DiskRows):
        def windows(self, *args):
            begins.append(session.alpha.copy())
            return super().windows(*args)

    class Watching(Turns):
        def show(self, progress):
            super().show(progress)
            ends.append(session.alpha.copy())
            D.append(progress.dual_objective)

    def make_disk(directory, lent, row_cache):
        return Watched(directory, lent, row_cache, SMALL, partial(DiskHealth, clock=lambda: 0.0))

    settings = {"on_disk": True, "updates_per_row": 60, "tolerance": None}
    with solving(tmp_path / "run", dataset, link=Watching, solvers=solvers_with(make_disk), **settings) as session:
        next(session.passes)
    changes = np.diff(D, prepend=-np.inf)
    assert changes.min() < -1e-9 * D[-1]
    stays = [np.array_equal(end, begin) for end, begin in zip(ends, begins[1:], strict=False)]
    # There is no momentum yet before the fourth.
    assert [stays[k] for k in range(3, 40)] == [changes[k] < 0 for k in range(3, 40)]
