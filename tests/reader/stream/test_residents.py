"""The reader's book of what is resident agrees with the cache, and what leaves is what should."""

import itertools
import json
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

from streamsvm.reader.stream.process import Reader
from streamsvm.reader.stream.residents import Residents
from streamsvm.storage.rows.cache import CacheWriter, Step
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.segment import SegmentBuilder, packed_bytes
from streamsvm.storage.run.state import create_state, pass_stamp
from tests.contracts.problems import make_dataset, random_problem, smallest_cache
from tests.contracts.solver import SMALLEST_CACHE, solving
from tests.storage.rows import as_segment, random_rows
from tests.training import write_run

N_ROWS = 4000


class Simulated:
    """Residents with a cache and a state, fed by hand: fresh segments of the rows that follow."""

    def __init__(self, directory, eviction, seed=0, longest=20):
        self.plan = plan_cache(smallest_cache(), longest)
        self.state = create_state(directory, N_ROWS, 10)
        self.cache = CacheWriter(directory / "cache", self.plan)
        self.residents = Residents(self.cache, self.plan, self.state, eviction, seed)
        self.source = as_segment(random_rows(N_ROWS, seed=seed, longest=longest))
        self.builder = SegmentBuilder(self.plan.segment_bytes)
        self.next_row, self.number, self.ids = 0, 0, itertools.count(1)

    def step(self, pass_=1):
        """One commit; returns (rows brought, eviction)."""
        fresh, first = [], self.next_row
        for _ in range(self.residents.most_fresh):
            self.next_row += self.builder.add(self.source, np.arange(self.next_row, N_ROWS))
            fresh.append(self.builder.take())
        self.residents.is_resident[first : self.next_row] = True
        eviction = self.residents.make_room(len(fresh), pass_)
        repacked = {next(self.ids): data for data in eviction.repacked}
        added = {next(self.ids): data for data in fresh}
        self.residents.advance(eviction.retired, repacked, added)
        self.number += 1
        others = tuple(k for k in self.live if k not in added)
        figures = (0, 0, 0, 0, 0)
        step = Step(self.number, N_ROWS, 10, pass_, *figures, False, False, (0.0,), tuple(added), others)
        self.cache.commit(step, {**repacked, **added}, eviction.retired)
        return np.arange(first, self.next_row), eviction

    @property
    def live(self):
        """Ids of all segments, ascending."""
        return sorted((*self.residents.fresh, *self.residents.settled))

    def resident_rows(self):
        """Row ids in the live segments, as the cache has them."""
        return np.concatenate([rows.row_id for rows in self.cache.read_all(list(self.live))])


@contextmanager
def simulated(directory, eviction, **options):
    simulation = Simulated(directory, eviction, **options)
    try:
        yield simulation
    finally:
        simulation.cache.close()


@pytest.mark.parametrize("eviction", ["score", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_book_agrees_with_the_cache(tmp_path, eviction, seed):
    rng = np.random.default_rng(seed)
    with simulated(tmp_path, eviction, seed=seed) as simulation:
        brought, gone, previous = [], [], []
        evictions = 0
        while simulation.next_row < N_ROWS - 600:
            simulation.state.score[:] = rng.normal(size=N_ROWS)
            if eviction == "random":
                simulation.state.score[rng.random(N_ROWS) < 0.3] = np.inf
            rows, left = simulation.step()
            brought += rows.tolist()
            gone += left.evicted.tolist()
            evictions += bool(len(left.retired))
            found = simulation.resident_rows()
            assert len(set(found.tolist())) == len(found)
            assert np.array_equal(np.sort(found), np.flatnonzero(simulation.residents.is_resident))
            assert Counter(brought) == Counter(gone) + Counter(found.tolist())
            assert simulation.residents.rows == len(found)
            assert len(simulation.live) <= simulation.plan.most_live
            # The trainer is at the step before: its rows have not been visited yet, and these not either.
            assert not set(left.evicted.tolist()) & {*previous, *rows.tolist()}
            previous = rows.tolist()
        assert evictions > 10


def test_lowest_scores_stay(tmp_path):
    """With fixed scores the cache ends up holding the rows that have most to teach."""
    with simulated(tmp_path, "score") as simulation:
        simulation.state.score[:] = np.random.default_rng(0).permutation(N_ROWS)
        last = []
        while simulation.next_row < N_ROWS - 600:
            last = simulation.step()[0]
        found = np.setdiff1d(simulation.resident_rows(), last)
        seen = simulation.state.score[: simulation.next_row]
        best = np.argsort(seen)[: len(found)]
        assert np.isin(best, found).mean() > 0.6
        assert np.median(seen[found]) < 0.5 * np.median(seen)


def test_what_the_printed_rule_gave_up_leaves(tmp_path):
    with simulated(tmp_path, "random") as simulation:
        simulation.state.score[::2] = np.inf
        while simulation.next_row < N_ROWS - 600:
            _, eviction = simulation.step()
            retired_even = eviction.evicted % 2 == 0
            if len(eviction.evicted):
                assert retired_even.any()
        # Far fewer than the half that was read.
        assert np.mean(simulation.resident_rows() % 2 == 0) < 0.35


@pytest.mark.parametrize("eviction", ["score", "random"])
def test_what_leaves_follows_from_the_seed(tmp_path, eviction):
    """From the very first step on, before any section has begun."""
    found = []
    for run in ("one", "other"):
        (tmp_path / run).mkdir()
        with simulated(tmp_path / run, eviction, seed=3) as simulation:
            while simulation.next_row < N_ROWS // 2:
                simulation.step()
            found.append(simulation.resident_rows().tolist())
    assert found[0] == found[1]


def test_rows_not_visited_in_the_pass_wait(tmp_path):
    """Resident rows that streamed by unvisited stay, whatever their score, while there are others."""
    with simulated(tmp_path, "score") as simulation:
        while len(simulation.live) < simulation.plan.most_live:
            simulation.step(pass_=1)
        waiting = simulation.resident_rows()[::3]
        simulation.state.score[waiting] = 1000.0
        simulation.state.skipped[waiting] = pass_stamp(2)
        simulation.state.visited[:] = pass_stamp(1)
        for _ in range(8):
            rows, eviction = simulation.step(pass_=2)
            simulation.state.visited[rows] = pass_stamp(2)
            assert len(eviction.evicted)
            assert not np.isin(eviction.evicted, waiting).any()
        # Once visited they are the first to leave.
        simulation.state.visited[waiting] = pass_stamp(2)
        _, eviction = simulation.step(pass_=2)
        assert np.isin(eviction.evicted, waiting).mean() > 0.5


@pytest.mark.parametrize("longest", [3, 60, 300])
def test_no_row_leaves_a_pass_unvisited(tmp_path, longest):
    """Rows of very different lengths pack badly, and still none is lost before its visit."""
    rng = np.random.default_rng(longest)
    lengths = np.where(rng.random(500) < 0.1, longest, rng.integers(1, 4, 500))
    X = np.zeros((500, 300), np.float32)
    for i, length in enumerate(lengths):
        X[i, rng.choice(300, length, replace=False)] = rng.standard_normal(length) / np.sqrt(length)
    dataset = make_dataset(tmp_path / "data", X, rng.choice([-1.0, 1.0], 500))
    for updates_per_row in (0.2, 1, 3):
        with solving(tmp_path / f"{updates_per_row}", dataset, SMALLEST_CACHE, updates_per_row=updates_per_row) as run:
            assert [next(run.passes).rows_unvisited for _ in range(12)] == [0] * 12


@pytest.mark.parametrize("cache_bytes", [SMALLEST_CACHE, 150_000, 400_000])
@pytest.mark.parametrize("share", [1.02, 1.3])
def test_no_row_leaves_a_pass_unvisited_where_nearly_all_is_resident(tmp_path, cache_bytes, share):
    """Most rows of a step stream by as resident and wait for their visit: they are not what makes room."""
    X, y = random_problem(3000)
    sizes = [packed_bytes(1, int(length)) for length in np.diff(X.indptr)]
    rows = int(np.searchsorted(np.cumsum(sizes), share * plan_cache(cache_bytes, 100).row_bytes))
    dataset = make_dataset(tmp_path / "data", X[:rows], y[:rows])
    with solving(tmp_path / "run", dataset, cache_bytes) as run:
        assert [next(run.passes).rows_unvisited for _ in range(8)] == [0] * 8


def test_reader_streams_every_row_once_a_pass(tmp_path):
    """Counted in the cache's steps, and never more than a step ahead of the trainer."""
    dataset = make_dataset(tmp_path / "data", *random_problem(500))
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE)
    reader = Reader(tmp_path / "run")
    while reader.step():
        pass
    control = reader._state.control
    assert control["committed_step"] == 1
    cache = reader.cache_reader()
    streamed, passes = Counter(), []
    while len(passes) < 3:
        step = cache.renew()
        streamed[step.pass_] += step.rows
        passes += [step.pass_] if step.ends_pass else []
        assert step.number == control["committed_step"]
        control["started_step"] = step.number
        while reader.step():
            pass
        # A section begins when the trainer is done with the last.
        assert control["committed_step"] == step.number + (not step.ends_section)
        control["finished_section"] = step.number
        while reader.step():
            pass
        assert control["committed_step"] == step.number + 1
    assert passes == [1, 2, 3]
    assert streamed == {1: 500, 2: 500, 3: 500}
    cache.close()
    reader.shutdown()


def test_losses_of_a_pass_are_those_at_the_published_w(tmp_path):
    """At w = 0 every row loses C, in every pass, whatever the trainer does to alpha meanwhile."""
    dataset = make_dataset(tmp_path / "data", *random_problem(400))
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE, C=3.0)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["reader"]["tasks"]["each"][0]["C_positive"] == 3.0
    reader = Reader(tmp_path / "run")
    while reader.step():
        pass
    cache, losses = reader.cache_reader(), []
    while len(losses) < 2:
        step = cache.renew()
        losses += step.pass_losses if step.ends_pass else ()
        reader._state.control["started_step"] = reader._state.control["finished_section"] = step.number
        while reader.step():
            pass
    assert losses == pytest.approx([1200.0, 1200.0], rel=1e-12)
    cache.close()
    reader.shutdown()


def test_while_the_trainer_takes_all_rows_to_its_disk_they_leave_as_they_came(tmp_path):
    with simulated(tmp_path, "score") as simulation:
        plan = simulation.plan
        assert simulation.residents.most_fresh == plan.fresh_per_step
        simulation.state.control["collects"] = 1
        assert simulation.residents.most_fresh == plan.most_retired > plan.fresh_per_step
        evicted = np.empty(0, np.int32)
        while simulation.next_row < N_ROWS // 2:
            rows, eviction = simulation.step()
            # Scores say the opposite: those that came first are to stay.
            simulation.state.score[rows] = simulation.number
            assert not eviction.repacked and eviction.makes_room
            assert simulation.residents.n_segments <= plan.most_live
            assert simulation.residents.leaving[eviction.evicted].all()
            evicted = np.concatenate((evicted, eviction.evicted))
        assert len(evicted) > N_ROWS // 8
        np.testing.assert_array_equal(evicted, np.arange(len(evicted)))
        np.testing.assert_array_equal(np.sort(simulation.resident_rows()), np.arange(len(evicted), simulation.next_row))
        # From then on those with most to teach stay.
        simulation.state.control["collects"] = 0
        assert simulation.residents.most_fresh == plan.fresh_per_step
        assert simulation.step()[1].evicted.min() > len(evicted)
