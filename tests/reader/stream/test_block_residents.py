"""A cache takes block after block, each as large as the cache, for any number of passes."""

import itertools

import numpy as np
import pytest

from streamsvm.reader.stream.block_residents import BlockResidents
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.segment import NORM, OFFSET, SegmentBuilder, packed_bytes, room
from streamsvm.storage.run.state import create_state
from tests.contracts.cache import make_step
from tests.contracts.objectives import plain_segment

N_ROWS, LONGEST = 40_000, 100


def some_rows():
    """N_ROWS rows of 0 to LONGEST values."""
    lengths = np.random.default_rng(0).integers(0, LONGEST + 1, N_ROWS)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(OFFSET)
    indices, values = np.zeros(indptr[-1], np.int32), np.ones(indptr[-1], np.float32)
    return plain_segment(np.arange(N_ROWS), np.ones(N_ROWS), lengths.astype(NORM), indptr, indices, values)


class Blocks:
    """The reader's part in block minimization with a cache, by hand; every step has a new snapshot taken of it."""

    def __init__(self, directory, cache_bytes, share):
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
        came = []
        left = self.plan.most_live - self.kept_segments
        while left:
            fresh = [self.segment() for _ in range(min(left, self.plan.fresh_per_step))]
            left -= len(fresh)
            while not self.commit(fresh):
                pass
            came += fresh
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
        self.snapshot.renew()
        return eviction.makes_room

    def cached(self):
        """Row ids the trainer is to see, as the cache has them."""
        return np.concatenate(
            [self.cache.read(segment_id).row_id for segment_id in (*self.residents.settled, *self.residents.fresh)]
        )

    def close(self):
        self.snapshot.close()
        self.cache.close()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("cache_bytes", [150_000, 400_000, 1 << 20, 3_000_000, 7_315_324])
def test_the_file_takes_block_after_block(tmp_path, cache_bytes, share):
    blocks = Blocks(tmp_path, cache_bytes, share)
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
