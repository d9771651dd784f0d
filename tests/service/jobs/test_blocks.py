"""How many blocks: as few as fit, or as asked for, and a refusal states the sum."""

import re

from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.rows.segment import packed_bytes
from tests.service.jobs.test_problem import plan, refusal

CACHE = 1 << 20
LABELS = {-1.0: 30_000, 1.0: 20_000}
SIZE = packed_bytes(50_000, 550_000)  # ten values of a row on average, and the constant feature


def test_as_few_blocks_as_fit():
    found = plan(LABELS, solver="bm", cache_bytes=CACHE)
    room = found.cache.sure_bytes(40)
    assert SIZE / found.blocks + packed_bytes(1, 40) <= room < SIZE / (found.blocks - 1) + packed_bytes(1, 40)
    more = plan(LABELS, solver="bm", cache_bytes=CACHE, solver_options={"n_blocks": found.blocks + 5})
    assert more.blocks == found.blocks + 5
    assert run_file(found, "d")["reader"]["blocks"] == found.blocks


def test_blocks_that_do_not_fit_are_refused_with_the_arithmetic():
    fewest = plan(LABELS, solver="bm", cache_bytes=CACHE).blocks
    error = refusal(LABELS, solver="bm", cache_bytes=CACHE, solver_options={"n_blocks": fewest - 1})
    assert error.code == "n_blocks_range"
    assert re.search(rf"{SIZE} bytes.* {CACHE} bytes.* {fewest} or more", error.message)
    assert refusal(LABELS, solver="bm", solver_options={"n_blocks": 50_001}).code == "n_blocks_range"


def test_data_that_fit_are_one_block():
    assert plan(LABELS, solver="bm", cache_bytes=3 * SIZE).blocks == 1


def test_only_steps_are_streamed_without_a_partition():
    assert run_file(plan(), "d")["reader"]["blocks"] is None
    assert "screening" not in run_file(plan(solver="bm"), "d")["reader"]


def test_what_does_not_fit_into_memory_is_refused_with_the_arithmetic():
    error = refusal(LABELS, solver="dcd", cache_bytes=CACHE)
    assert error.code == "data_too_large"
    assert re.search(rf"dcd .* {SIZE} bytes.* {CACHE} bytes", error.message)
    assert plan(LABELS, solver="dcd", cache_bytes=3 * SIZE).blocks == 1


def test_rows_that_stay_take_their_share_of_the_cache():
    few, many = (
        plan(LABELS, solver="sbm", cache_bytes=CACHE, solver_options={"cache_share": share}) for share in (0.2, 0.7)
    )
    assert few.blocks < many.blocks
    kept = [run_file(one, "d")["reader"]["kept_bytes"] for one in (few, many)]
    assert 0 < kept[0] < 0.2 * few.cache.row_bytes < 0.5 * few.cache.row_bytes < kept[1] < 0.7 * few.cache.row_bytes
    assert run_file(plan(LABELS, solver="bm", cache_bytes=CACHE), "d")["reader"]["kept_bytes"] == 0
