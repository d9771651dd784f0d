"""A cache takes block after block, each as large as the cache, for any number of passes."""

import itertools

import numpy as np
import pytest

from streamsvm.reader.stream.process import Reader
from streamsvm.reader.stream.residents import BlockResidents
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.segment import NORM, OFFSET, SegmentBuilder, packed_bytes, room
from streamsvm.storage.run.state import create_state
from tests.contracts.cache import make_step
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE
from tests.training import write_run

N_ROWS, LONGEST = 40_000, 100


def some_rows():
    """N_ROWS rows of 0 to LONGEST values."""
    lengths = np.random.default_rng(0).integers(0, LONGEST + 1, N_ROWS)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(OFFSET)
    indices, values = np.zeros(indptr[-1], np.int32), np.ones(indptr[-1], np.float32)
    return plain_segment(np.arange(N_ROWS), np.ones(N_ROWS), lengths.astype(NORM), indptr, indices, values)


class Blocks:
    """The reader's part in block minimization with a cache, by hand.

    takes_each  a new snapshot is taken of every step, else of the last of each block, and there is none in between
    """

    def __init__(self, directory, cache_bytes, share, takes_each):
        self.takes_each = takes_each
        self.plan = plan_cache(cache_bytes, LONGEST)
        self.path = directory / "cache"
        state = create_state(directory, N_ROWS, 10)
        state.score[:] = np.random.default_rng(0).random(N_ROWS)
        self.cache = CacheWriter(self.path, self.plan)
        self.cache.commit(make_step(0), {}, [])
        self.snapshot = self.cache.reader()
        self.kept_segments = int(share * self.plan.most_live)
        # At the end of each segment as much room may be lost as the longest row takes.
        sure = room(self.plan.segment_bytes) - packed_bytes(1, LONGEST)
        kept_bytes = max(0, self.kept_segments - 1) * sure
        self.residents = BlockResidents(self.cache, self.plan, state, kept_bytes, seed=0)
        self.rows = some_rows()
        self.next_row, self.ids, self.steps = 0, itertools.count(1), 0

    def next(self):
        """A block that fills what the rows that stay leave of the cache; returns the ids of its rows."""
        self.residents.begin_section((1, 0))
        self.snapshot.release()
        came = []
        left = self.plan.most_live - self.kept_segments
        while left:
            fresh = [self.segment() for _ in range(min(left, self.plan.fresh_per_step))]
            left -= len(fresh)
            while not self.commit(fresh):
                pass
            came += fresh
        self.snapshot.renew()
        return np.concatenate([row_id for row_id, _ in came])

    def segment(self):
        """(Row ids, packed): the next rows that are not in the cache, and begin again behind the last."""
        builder = SegmentBuilder(self.plan.segment_bytes)
        order = np.roll(np.arange(N_ROWS), -self.next_row)
        order = order[~self.residents.is_resident[order]]
        chosen = order[: builder.add(self.rows, order)]
        self.residents.is_resident[chosen] = True
        self.next_row = int(chosen[-1]) + 1
        return chosen, builder.take()

    def commit(self, fresh):
        eviction = self.residents.make_room(len(fresh), 1)
        repacked = {next(self.ids): data for data in eviction.repacked}
        added = {next(self.ids): data for _, data in fresh} if eviction.makes_room else {}
        self.residents.advance(eviction.retired, repacked, added)
        self.steps += 1
        self.cache.commit(make_step(self.steps), {**repacked, **added}, eviction.retired)
        if self.takes_each:
            self.snapshot.renew()
        return eviction.makes_room

    def cached(self):
        """Row ids the trainer is to see, as the cache has them."""
        return np.concatenate(
            [rows.row_id for rows in self.cache.read_all([*self.residents.settled, *self.residents.fresh])]
        )

    def close(self):
        self.snapshot.close()
        self.cache.close()


SIZES, SHARES = [150_000, 400_000, 1 << 20, 3_000_000, 7_315_324], [0.0, 0.5, 0.9]


# Snapshots in turn: each size and each share has both ways.
@pytest.mark.parametrize(
    ("cache_bytes", "share", "takes_each"),
    [(*each, number % 2 == 0) for number, each in enumerate(itertools.product(SIZES, SHARES))],
)
def test_the_file_takes_block_after_block(tmp_path, cache_bytes, share, takes_each):
    blocks = Blocks(tmp_path, cache_bytes, share, takes_each)
    before = np.empty(0, int)
    while blocks.steps < 1000:
        fresh = blocks.next()
        found = blocks.cached()
        assert len(np.unique(found)) == len(found) == blocks.residents.rows
        assert np.array_equal(np.sort(found), np.flatnonzero(blocks.residents.is_resident))
        assert set(fresh) <= set(found)
        assert set(found) <= {*fresh, *before}
        assert (len(found) > len(fresh)) == (share > 0 and len(before) > 0)
        assert blocks.path.stat().st_size <= cache_bytes
        before = found
    blocks.close()


def test_a_block_comes_whole_while_the_trainer_waits_for_its_last_step(tmp_path):
    """The reader waits for the trainer between two blocks alone, and within one if the job ends there."""
    dataset = make_dataset(tmp_path / "data", *random_problem(2000))
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE, solver="bm")
    reader = Reader(tmp_path / "run")
    control, cache, rows = reader._state.control, reader.cache_reader(), 0
    for _ in range(3):
        begins = control["committed_step"]
        while reader.step():
            pass
        step = cache.renew()
        assert step.number == control["committed_step"] == control["committed_section"] > begins + 1
        assert step.ends_section
        rows += sum(len(cache.read(number)) for number in step.fresh)
        cache.release()
        control["started_step"] = control["finished_section"] = step.number
    assert 0 < rows < 2000
    control["ending"] = 1
    while reader.step():
        pass
    assert control["committed_step"] == step.number + 1
    cache.close()
    reader.shutdown()
