"""What a sweep met is what its rows say, and a guess at how near training has come; who visits makes no difference."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.hinge import Notes
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.sweeps.sweep import ALONE, Threads, sweep
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.statistics import Sums, SweepStatistics, Visits
from streamsvm.trainer.updates.updater import NO_REST, CoordinateUpdater, gathered
from tests.contracts.kernels import columns
from tests.contracts.objectives import updater_of


def visits(score, M_plus=0.0, M_minus=0.0, gap=0.0, squares=0.0):
    sums = Sums(*np.array([[M_plus], [M_minus], [0.0], [0.0], [gap], [squares]]))
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
        Sums(0.5, -0.25, 1.5, -1, 0.5, pytest.approx(4.0 * rows.Qii[4]))
    )


def notes_of(score, gain):
    return Notes(np.array(score, np.float32), np.array(gain, float), NO_REST)


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
