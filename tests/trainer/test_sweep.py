"""What a sweep met is what its rows say, and a guess at how near training has come; sweeps reach the same optimum."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.hinge import VisitNotes
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.rows.disk import DiskRows
from streamsvm.trainer.sweeps.sweep import ALONE, Threads, sweep
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.statistics import SweepStatistics, Visits, VisitSums
from streamsvm.trainer.updates.updater import NO_REST, CoordinateUpdater, gathered
from tests.contracts.kernels import columns
from tests.contracts.objectives import updater_of
from tests.contracts.problems import a_dataset, make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, cache_for, exact, name_of, solving
from tests.trainer.disks import SMALL, Disk, refuses
from tests.training import Turns, about_to_begin, open_state_of, solvers_with, train, write_run

WAYS = [{"on_disk": True}, {"on_disk": True, "threads": 2}, {"holds_all": True}, {"holds_all": True, "threads": 2}]
everywhere = pytest.mark.parametrize("way", WAYS, ids=name_of)

# Many free rows. Several times what the smallest cache holds.
dataset = a_dataset(1500, noise=0.1)


def visits(score, M_plus=0.0, M_minus=0.0, gap=0.0, squares=0.0):
    sums = VisitSums(*np.array([[M_plus], [M_minus], [0.0], [0.0], [gap], [squares]]))
    return Visits(np.array(score, np.float32), np.zeros(len(score)), NO_REST, sums)


def test_it_adds_up():
    met = SweepStatistics.none(1)
    assert met.moved == 0.0
    met.add(visits([-0.5, 0.25], 0.5, -0.25, gap=0.5, squares=4.0))
    met.add(visits([-1.5], 0.25, -2.0, gap=1.5, squares=4.0))
    met.add(visits([], -np.inf, np.inf))
    assert (met.visits, met.sums.gap, met.sums.M_plus, met.sums.M_minus, met.distance) == (3, 2.0, 0.5, -2.0, 2.5)
    assert met.moved == pytest.approx(np.sqrt((2.0**2 + 0.0 + 2.0**2) / 3))
    assert met.slack == met.moved


def test_a_row_that_came_back_into_its_box_at_a_loss_has_not_moved_margins():
    met = SweepStatistics.none(1)
    found = gathered(Segment(*columns()), np.arange(1, dtype=np.int32), notes_of([0.5], [-3.0]), (0.0, 0.0, 0.0, 0))
    met.add(found)
    assert (met.moved, met.sums.gap) == (0.0, 0.0)
    assert met.slack > 0.0


def test_what_visits_add_up_to():
    """What rests has no part in P - D; a step to where PG is 0 gains PG^2 / (2 Qii)."""
    rows = Segment(*columns())
    order, notes = np.array([4, 1], np.int32), notes_of([-0.5, 0.25], [2.0, 0.0])
    found = gathered(rows, order, notes, (0.5, -0.25, 1.5, -1))
    assert [float(each[0]) for each in found.sums] == list(
        VisitSums(0.5, -0.25, 1.5, -1, 0.5, pytest.approx(4.0 * rows.Qii[4]))
    )


def notes_of(score, gain):
    return VisitNotes(np.array(score, np.float32), np.array(gain, float), NO_REST)


@pytest.mark.parametrize(
    ("tolerance", "relative_gap", "factor", "near"),
    [
        (None, None, 1.0, False),
        (0.51, None, 1.0, True),
        (0.49, None, 1.0, False),
        # At the end of a sweep that met a gap of 1 it is likely 0.75, of a primal objective of 9.75.
        (None, 0.077, 1.0, True),
        (None, 0.076, 1.0, False),
        (0.49, 0.077, 1.0, False),  # both have to be near
        (0.51, 0.076, 1.0, False),
        (0.51, 0.077, 1.0, True),
        (0.26, None, 0.5, True),
        (None, 0.039, 0.5, True),
        (0.99, 0.153, 2.0, False),
    ],
)
def test_what_is_near(tolerance, relative_gap, factor, near):
    met = SweepStatistics.none(1)
    met.add(visits([-1.0], 0.25, -0.25, gap=1.0))
    targets = StoppingTargets(tolerance, relative_gap)
    assert targets.near_after(met, np.full(1, np.inf), np.full(1, 9.0), factor).tolist() == [near]


def test_nothing_met_is_nothing_known():
    nothing = SweepStatistics.none(1)
    assert not StoppingTargets(1e-3, None).near_after(nothing, np.full(1, np.inf), np.full(1, 9.0), 1.0).any()


def parts(rows: Segment, size: int):
    """The rows, a few at a time, each in an array of its own."""
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        start, end = rows.indptr[first], rows.indptr[last]
        own = (rows.row_id, rows.class_code, rows.fold, rows.Qii)
        indptr = rows.indptr[first : last + 1] - start
        yield Segment(*(column[first:last] for column in own), indptr, rows.indices[start:end], rows.values[start:end])


def apart(rows: Segment) -> Segment:
    """The same rows with features that no two of them share."""
    return replace(rows, indices=np.arange(len(rows.indices), dtype=np.int32))


def backwards(part):
    return np.arange(len(part), dtype=np.int32)[::-1].copy()


def swept(rows, threads):
    """What a sweep comes to: alpha and w, the rows in the order they were noted and learned from, what was met."""
    alpha, w, noted, learned = np.zeros(2 * len(rows)), np.zeros(len(rows.indices)), [], []

    def note(row_id, _scores):
        noted.extend(row_id.tolist())

    def learn(part, order, _visits):
        learned.extend(part.row_id[order].tolist())

    met = sweep(parts(rows, 3), backwards, updater_of(Tasks.single("hinge", 1.0, 0.5), alpha, w, note), threads, learn)
    return alpha.tobytes(), w.tobytes(), np.array(met.sums).tobytes(), noted, learned, met.visits


@pytest.mark.parametrize("count", [1, 2, 8])
def test_threads_visit_what_one_visits_and_learn_in_order(count):
    """Of rows that have nothing in common, so that it makes no difference who is first."""
    rows = apart(Segment(*columns()))
    with ThreadPoolExecutor(count) as pool:
        found = [swept(rows, way) for way in (ALONE, Threads(count, pool))]
    assert found[1] == found[0]
    *_, noted, learned, met = found[0]
    assert noted == learned and len(set(learned)) == len(rows) == met


def test_a_window_that_cannot_be_had_leaves_no_visit_under_way():
    """Its memory is about to be given back."""
    rows = Segment(*columns())
    alpha, w = np.zeros(2 * len(rows)), np.zeros(60)
    ended = []

    class Slow(CoordinateUpdater):
        def visit(self, *args):
            ended.append(super().visit(*args))
            return ended[-1]

    def windows():
        yield from list(parts(rows, 5))[:3]
        raise OSError("the disk is gone")

    with ThreadPoolExecutor(4) as pool:
        visitor = updater_of(Tasks.single("hinge", 1.0), alpha, w, make=Slow)
        with pytest.raises(OSError, match="gone"):
            sweep(windows(), backwards, visitor, Threads(4, pool))
        assert len(ended) == 3


def test_a_share_of_the_first_gap_is_near_whatever_the_factor():
    met = SweepStatistics.none(1)
    met.add(visits([-1.0], 0.25, -0.25, gap=1.0))
    targets = StoppingTargets(None, None, share_of_gap=0.5)
    assert targets.near_after(met, np.full(1, 2.0), np.full(1, 9.0), 10.0).all()
    assert not targets.near_after(met, np.full(1, 1.9), np.full(1, 9.0), 0.1).any()


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
    disk = Disk(refuses(kind, 50))
    run = tmp_path / "run"
    settings = {"tolerance": 1e-3, "max_passes": 300, "threads": threads, "updates_per_row": 8}
    write_run(run, dataset, SMALLEST_CACHE, on_disk=True, **settings)
    passes = []
    with about_to_begin(run, solvers=solvers_with(disk.rows)) as (trainer, _):
        while trainer.stop_reason is None:
            passes.append(trainer.step())
        trainer.shutdown()
    assert disk.calls[kind] >= 50 and all(file.is_closed for file in disk.files)
    assert passes[-1]["rows_streamed"] > 1500
    assert trainer.stop_reason == "tolerance" and passes[-1]["rows_unvisited"] == 0
    found, problem = open_state_of(run), exact(dataset)
    assert problem.gap(found.alpha[:, 0], found.w[:, 0]) <= 1e-3


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
    assert changes.min() < -1e-10 * D[-1]
    stays = [np.array_equal(end, begin) for end, begin in zip(ends, begins[1:], strict=False)]
    # There is no momentum yet before the fourth.
    assert [stays[k] for k in range(3, 40)] == [changes[k] < 0 for k in range(3, 40)]
