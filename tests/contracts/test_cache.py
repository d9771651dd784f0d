"""What the trainer relies on in a cache."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from streamsvm.storage.errors import CacheFull
from streamsvm.storage.rows.cache import CacheReader, CacheWriter, Step
from streamsvm.storage.rows.cache_plan import CachePlan, plan_cache
from tests.contracts.cache import content, make_segment, make_step

SIZES = {150_000: 2000, 1 << 20: 1500, 8 << 20: 1500}


def check_churn(path: Path, cache_bytes: int, steps: int, seed: int = 0) -> None:
    """At the plan's limits the cache never fills, never outgrows its bytes, and snapshots stay as they are."""
    plan = plan_cache(cache_bytes, 100)
    rng = np.random.default_rng(seed)
    live: list[int] = []
    next_id = 1
    with _opened(path, plan) as (writer, reader):
        held: list[tuple[int, np.ndarray]] = []
        for number in range(1, steps + 1):
            fresh = int(rng.integers(0, plan.fresh_per_step + 1))
            to_free = max(0, len(live) + fresh - plan.most_live)
            retired = int(rng.integers(to_free, plan.most_retired + 1)) if to_free else 0
            removed = rng.choice(live, retired, replace=False).tolist() if retired else []
            added = list(range(next_id, next_id + retired - to_free + fresh))
            next_id += len(added)
            live = [segment_id for segment_id in live if segment_id not in removed] + added
            assert len(live) <= plan.most_live
            data = {segment_id: make_segment(segment_id, plan.segment_bytes) for segment_id in added}
            writer.commit(make_step(number, added, live[: -len(added) or None]), data, removed)
            # What the reader still holds is the step before.
            for segment_id, buffer in held:
                assert buffer.tobytes() == make_segment(segment_id, plan.segment_bytes)
            assert path.stat().st_size <= cache_bytes
            assert reader.renew().number == number
            picked = rng.choice(live, min(3, len(live)), replace=False).tolist() if live else []
            held = [(segment_id, content(reader, segment_id, plan.segment_bytes)) for segment_id in picked]
            # Those the next step may well remove are looked at too.
            held += [(segment_id, content(reader, segment_id, plan.segment_bytes)) for segment_id in live[:1]]
        assert len(live) > plan.most_live - plan.fresh_per_step
        held.clear()


@contextmanager
def _opened(path: Path, plan: CachePlan) -> Iterator[tuple[CacheWriter, CacheReader]]:
    writer = CacheWriter(path, plan)
    writer.commit(make_step(0), {}, [])
    reader = writer.reader()
    try:
        yield writer, reader
    finally:
        reader.close()
        writer.close()


def test_steps(tmp_path):
    """A step comes back as it was committed, with its segments and no others."""
    plan = plan_cache(200_000, 10)
    with _opened(tmp_path / "cache", plan) as (writer, reader):
        step = Step(7, 99, 9, 3, 4, 17, 12345, 678, 90, True, True, (0.1,), (5, 2**40), (1, 2))
        data = {segment_id: make_segment(segment_id, plan.segment_bytes) for segment_id in (1, 2, 5, 2**40)}
        writer.commit(step, data, [])
        assert reader.renew() == step
        for segment_id, written in data.items():
            found = content(reader, segment_id, plan.segment_bytes)
            assert found.tobytes() == written
            assert not found.flags.writeable
            assert content(writer, segment_id, plan.segment_bytes).tobytes() == written
        following = make_step(8, (), (1, 5))
        writer.commit(following, {}, [2, 2**40])
        assert reader.renew() == following
        for gone in (2, 2**40, 77):
            with pytest.raises(KeyError):
                reader.read(gone)


def test_snapshots(tmp_path):
    """A reader sees one step whole until it renews, though its segments are removed meanwhile."""
    plan = plan_cache(400_000, 10)
    with _opened(tmp_path / "cache", plan) as (writer, reader):
        for number in range(1, 40):
            data = make_segment(number, plan.segment_bytes)
            writer.commit(make_step(number, (number,)), {number: data}, [number - 1] if number > 1 else [])
            assert reader.renew().fresh == (number,)
            held = content(reader, number, plan.segment_bytes)
            other = {number + 1000: make_segment(number + 1000, plan.segment_bytes)}
            writer.commit(make_step(number, (number + 1000,)), other, [number])
            assert held.tobytes() == data
            with pytest.raises(KeyError):
                reader.read(number + 1000)
            assert reader.renew().fresh == (number + 1000,)
            writer.commit(make_step(number, (number,)), {number: data}, [number + 1000])
            reader.renew()


def test_a_full_one(tmp_path):
    """A commit that does not fit raises CacheFull and changes nothing."""
    plan = plan_cache(150_000, 10)
    with _opened(tmp_path / "cache", plan) as (writer, reader):
        first = {1: make_segment(1, plan.segment_bytes)}
        writer.commit(make_step(1, (1,)), first, [])
        too_much = {k: make_segment(k, plan.segment_bytes) for k in range(2, 100)}
        with pytest.raises(CacheFull, match="150000"):
            writer.commit(make_step(2, too_much), too_much, [1])
        assert reader.renew().number == 1
        assert content(reader, 1, plan.segment_bytes).tobytes() == first[1]
        writer.commit(make_step(2, (), (1,)), {}, [])
        assert reader.renew().number == 2


@pytest.mark.parametrize(("cache_bytes", "steps"), SIZES.items())
def test_churn_never_fills_it(cache_bytes, steps, tmp_path):
    check_churn(tmp_path / "cache", cache_bytes, steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_churn_of_a_larger_one(seed, tmp_path):
    check_churn(tmp_path / "cache", 32 << 20, 1500, seed)


def test_another_process_reads_it(tmp_path):
    plan = plan_cache(200_000, 10)
    writer = CacheWriter(tmp_path / "cache", plan)
    data = make_segment(9, plan.segment_bytes)
    writer.commit(make_step(4, (9,)), {9: data}, [])
    program = (
        "import sys, pathlib; from streamsvm.storage.rows.cache import CacheReader\n"
        "reader = CacheReader.open(pathlib.Path(sys.argv[1]), int(sys.argv[2]))\n"
        "step = reader.renew(); found = reader.read(9).indptr\n"
        "print(step.number, step.fresh, found.flags.writeable); reader.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cache"), "200000"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "4 (9,) False"
    writer.close()


def test_reader_opens_what_a_writer_left(tmp_path):
    plan = plan_cache(200_000, 10)
    writer = CacheWriter(tmp_path / "cache", plan)
    data = make_segment(1, plan.segment_bytes)
    writer.commit(make_step(1, (1,)), {1: data}, [])
    writer.close()
    reader = CacheReader.open(tmp_path / "cache", 200_000)
    assert reader.renew().fresh == (1,)
    assert content(reader, 1, plan.segment_bytes).tobytes() == data
    reader.close()
