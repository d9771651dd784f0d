"""Every cache keeps the contract."""

import subprocess
import sys

import pytest

from streamsvm.storage.rows.cache import CacheReader, CacheWriter
from streamsvm.storage.rows.cache_plan import plan_cache
from tests.contracts.cache import check_cache, check_churn, content, make_segment, make_step

CACHES = {"lmdb": CacheWriter}
SIZES = {150_000: 3000, 1 << 20: 3000, 3_000_000: 2000, 8 << 20: 1500}


@pytest.mark.parametrize("name", CACHES)
def test_contract(name, tmp_path):
    check_cache(CACHES[name], tmp_path)


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize(("cache_bytes", "steps"), SIZES.items())
def test_churn_never_fills_it(name, cache_bytes, steps, tmp_path):
    check_churn(CACHES[name], tmp_path / "cache", cache_bytes, steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("seed", range(4))
def test_churn_of_a_larger_one(name, seed, tmp_path):
    check_churn(CACHES[name], tmp_path / "cache", 32 << 20, 1500, seed)


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
        [sys.executable, "-c", program, str(tmp_path / "cache"), "200000"],
        capture_output=True,
        text=True,
        check=True,
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
