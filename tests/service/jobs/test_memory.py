"""`memory_bytes`: the cache gets what the rest leaves, or the job is refused with the sum; how many blocks."""

import re
from dataclasses import replace

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import format_size, parse_size
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.forecast import estimate
from streamsvm.service.jobs.plan.memory import RULED_OUT, memory_of, plan_memory
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.blocks.manifest import Manifest, WeightCounts
from streamsvm.storage.rows.segment import packed_bytes
from streamsvm.trainer.newton.system import LARGEST
from tests.pages import page
from tests.refusals import refused
from tests.service.jobs.test_problem import plan, refusal

CACHE = 1 << 20
LABELS = {-1.0: 30_000, 1.0: 20_000}
SIZE = packed_bytes(50_000, 550_000)  # ten values of a row on average, and the constant feature


def manifest(rows: int = 1_000_000, features: int = 100_000) -> Manifest:
    return Manifest("u", 1, features, rows, 50 * rows, {-1.0: 5, 1.0: 5}, 100, 1000, {}, ())


def test_the_whole_is_the_bound_and_to_settle_it_twice_changes_nothing():
    plan = plan_job(parse_spec({"dataset": "d", "memory_bytes": 1 << 30}), manifest(), cores=1)
    assert memory_of(plan.spec, manifest(), 1, 1, plan.newton).total_bytes == 1 << 30
    assert plan.spec.cache_bytes > 256 << 20
    assert plan_job(plan.spec, manifest(), cores=1) == plan


def test_more_rows_leave_less_for_the_cache():
    spec = parse_spec({"dataset": "d", "memory_bytes": 1 << 30, "machines": 2, "combine": "average"})
    few, many = (plan_memory(spec, manifest(rows), 1, 1 << 40)[1].cache_bytes for rows in (1_000, 1_001_000))
    assert few - many == 25_000_000


@pytest.mark.parametrize(
    ("solver", "more"),
    [("pegasos", 0), ("streamsvm", 9), ("streamsvm_paper", 28), ("dcd", 4), ("bm", 4), ("sbm", 4), ("avsf", 28)],
)
def test_what_a_solver_keeps_of_a_row_counts(solver, more):
    spec = parse_spec({"dataset": "d", "solver": solver})
    few, many = (memory_of(spec, manifest(rows), 1).total_bytes for rows in (1_000, 1_001_000))
    assert many - few == (16 + more) * 1_000_000


@pytest.mark.parametrize("threads", [1, 8])
def test_rows_longer_than_a_segment_count_as_often_as_they_are_held(threads):
    spec, lengths = parse_spec({"dataset": "d"}), [100, 65_000, 200_000, 4_000_000]
    short, most, long, longest = (
        memory_of(spec, replace(manifest(), longest_row=length), threads).buffers_bytes for length in lengths
    )
    assert short == most == 48 << 20
    # Packed for the disk and ahead of it, and in segments of the cache.
    assert long - short > (10 + threads) * (8 * 200_000 - (1 << 19))
    assert longest - short > (10 + threads) * 32_000_000 + (5 + 4 * threads) * 32_000_000


@pytest.mark.parametrize("memory_bytes", [1, 300 << 20])
def test_what_cannot_fit_is_refused_with_the_arithmetic(memory_bytes):
    with refused(ServiceError, "memory_too_small") as caught:
        plan_job(parse_spec({"dataset": "d", "memory_bytes": memory_bytes}), manifest())
    for part in ("processes 320.0 MiB", "rows 15.3 MiB", "features 3.8 MiB", "solver 8.6 MiB"):
        assert part in caught.value.message
    assert "at least" in caught.value.hint


def test_an_estimate_names_what_it_adds_up():
    plan = plan_job(parse_spec({"dataset": "d", "bias": None, "memory_bytes": 1 << 30}), manifest())
    found = estimate(plan)
    parts = {name: size for name, size in found["memory"].items() if name != "total_bytes"}
    assert sum(parts.values()) == found["memory"]["total_bytes"] == 1 << 30
    assert found["disk"]["model_bytes"] == 8 * 100_001


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"solver": "dcd", "cache_bytes": 1 << 30}, "solver"),
        ({"pace": "fixed"}, "pace"),
        ({"multiclass": "crammer_singer"}, "multiclass"),
        ({"machines": 2, "combine": "average"}, "machines"),
        ({"tolerance": None, "relative_gap": None}, "no_target"),
        ({"solver_options": {"spill": False}, "cache_bytes": 1 << 20}, "rows_not_at_hand"),
        ({"memory_bytes": 400 << 20}, "no_room"),
    ],
    ids=str,
)
def test_an_estimate_says_why_a_job_takes_no_newton_steps(fields, code):
    found = estimate(plan_job(parse_spec({"dataset": "d", **fields}), manifest()))
    assert found["newton"] == {"is_possible": False, "ruled_out_by": code, "message": RULED_OUT[code], "equations": 0}
    assert found["memory"]["newton_bytes"] == 0


def test_an_estimate_says_how_large_systems_of_newton_steps_may_be():
    spec = parse_spec({"dataset": "d", "bias": None})
    found = estimate(plan_job(spec, manifest(features=28), memory_bytes=1 << 40))["newton"]
    assert found == {"is_possible": True, "ruled_out_by": None, "message": None, "equations": 29}
    found = estimate(plan_job(spec, manifest(), memory_bytes=1 << 40))["newton"]
    assert (found["is_possible"], found["equations"]) == (True, LARGEST)
    assert "8,000 rows do not rest" in found["message"]
    streaming = {"solver_options": {"spill": False}, "cache_bytes": 1 << 20}
    on_four = parse_spec({"dataset": "d", "bias": None, "machines": 4, **streaming})
    found = estimate(plan_job(on_four, manifest(features=28)))["newton"]
    assert (found["is_possible"], found["equations"]) == (True, 29)


def test_more_updates_take_longer():
    few, many = (parse_spec({"dataset": "d", "solver_options": {"updates_per_row": count}}) for count in (2, 20))
    seconds = [estimate(plan_job(spec, manifest()))["seconds_per_pass"] for spec in (few, many)]
    assert 0 < seconds[0] < seconds[1]


def test_cutting_planes_are_counted_and_refused_where_there_is_no_room_for_them():
    ocas = {"dataset": "d", "bias": None, "solver": "ocas"}
    few, many = (parse_spec({**ocas, "solver_options": {"max_cuts": cuts}}) for cuts in (100, 101))
    more = memory_of(many, manifest(), 1).solver_bytes - memory_of(few, manifest(), 1).solver_bytes
    assert more == 8 * (100_001 + 102**2 - 101**2)
    shared = memory_of(few, manifest(), 3).solver_bytes - memory_of(few, manifest(), 1).solver_bytes
    assert shared == 8 * 2 * 100_001
    huge = parse_spec({**ocas, "solver_options": {"max_cuts": 10_000}})
    with refused(ServiceError, "max_cuts_range") as caught:
        plan_job(huge, manifest(features=1 << 27))
    assert "max_cuts 10000 cutting planes of 134217729 features" in caught.value.message


@pytest.mark.parametrize("given", [{}, {"memory_bytes": 1 << 36}])
def test_features_and_classes_that_no_cache_makes_smaller_are_refused_where_there_is_no_room(given):
    spec = parse_spec({"dataset": "d", "multiclass": "crammer_singer", **given})
    classes = replace(manifest(), labels={float(k): 10 for k in range(500)})
    memory = memory_of(spec, classes, 1)
    needed = memory.features_bytes + memory.solver_bytes
    assert needed > 4 << 30
    assert plan_job(spec, classes, 1, needed).spec.multiclass == "crammer_singer"
    with refused(ServiceError, "memory_too_small") as caught:
        plan_job(spec, classes, 1, needed - 1)
    assert format_size(needed) in caught.value.message and "fewer classes" in caught.value.hint


def test_an_estimate_counts_the_threads_there_will_be():
    spec, adaptive, fixed = {"dataset": "d", "solver": "cpa"}, {}, {"pace": "fixed"}
    sizes = [
        estimate(plan_job(parse_spec({**spec, **way}), manifest(), cores=5))["memory"]["solver_bytes"]
        for way in (adaptive, fixed, {"threads": 2})
    ]
    assert sizes == [memory_of(parse_spec(spec), manifest(), threads).solver_bytes for threads in (5, 1, 2)]


_LINE = re.compile(r"^\| (\d+) \| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
SIZES = _LINE.findall(page("storage"))


@pytest.mark.parametrize("line", SIZES, ids=lambda line: f"{line[0]} rows")
def test_the_sizes_of_the_page_are_those_of_an_estimate(line):
    rows, features, cache, *printed = line
    spec = parse_spec({"dataset": "d", "cache_bytes": parse_size(cache)})
    found = estimate(plan_job(spec, manifest(int(rows), int(features)), memory_bytes=1 << 40, cores=2))
    memory = found["memory"]
    sizes = (memory["total_bytes"], memory["newton_bytes"], found["disk"]["run_bytes"], found["disk"]["model_bytes"])
    assert list(map(format_size, sizes)) == printed


def test_the_page_has_sizes():
    assert len(SIZES) == 3


@pytest.mark.parametrize(
    ("memory", "features", "at_once"), [(1 << 30, 1000, 16), (1 << 30, 4 << 20, 4), (700 << 20, 4 << 20, 1)]
)
def test_lanes_are_trained_side_by_side_as_far_as_memory_goes(memory, features, at_once):
    values = [0.1 * (k + 1) for k in range(20)]
    plan = plan_job(parse_spec({"dataset": "d", "C": values, "memory_bytes": memory}), manifest(1_000, features))
    found = estimate(plan)
    assert found["lanes"] == {"count": 20, "at_once": at_once, "groups": -(-20 // at_once)}
    assert found["memory"]["total_bytes"] <= memory
    assert found["memory"]["cache_bytes"] == plan.cache.cache_bytes


def test_a_solver_without_lanes_trains_them_one_after_the_other():
    spec = parse_spec({"dataset": "d", "C": [0.1, 1.0, 10.0], "solver": "bm"})
    assert estimate(plan_job(spec, manifest()))["lanes"] == {"count": 3, "at_once": 1, "groups": 3}


def test_values_of_C_in_turn_are_groups_of_their_own():
    """Eighteen lanes a C: as many side by side as there may be, then the rest, then the next C."""
    data = replace(manifest(1_000, 1000), labels={1.0: 400, 2.0: 300, 3.0: 300}, Qii_spread=(1.0, 1000.0, 1.0))
    plan = plan_job(parse_spec({"dataset": "d", "C": [1, 10, 1000], "folds": 5}), data)
    assert plan.firsts == [0, 16, 18, 34, 36, 52]
    assert estimate(plan)["lanes"] == {"count": 54, "at_once": 16, "groups": 6}
    done = [{"job_passes": k // 16, "elapsed_seconds": 1.0 * k} for k in range(54)]
    for first, count in ((0, 16), (16, 2), (18, 16), (34, 2), (52, 2)):
        running = plan.next_lanes(done[:first]).running
        assert running == plan.lanes[first : first + count] and len({lane.C for lane in running}) == 1
    assert plan.next_lanes(done).number == 52
    narrow = plan_job(parse_spec({"dataset": "d", "C": [1, 10, 1000]}), data)
    assert (narrow.firsts, narrow.tasks.width) == ([0, 3, 6], 4)


def test_lanes_that_were_all_done_have_the_last_ones_run_once_more():
    """A worker died before the models were there: passes and seconds are those before these lanes."""
    plan = plan_job(parse_spec({"dataset": "d", "C": [0.1 * (k + 1) for k in range(20)]}), manifest(1_000, 1000))
    done = [{"job_passes": 3 if k < 16 else 7, "elapsed_seconds": 1.0 if k < 16 else 2.0} for k in range(20)]
    again = plan.next_lanes(done)
    assert (again.number, again.passes_before, again.seconds_before) == (16, 3, 1.0)
    assert len(again.running) == 4
    assert (plan.next_lanes([]).number, plan.next_lanes(done[:16]).number) == (0, 16)


def test_weights_of_rows_held_out_are_kept_once_for_all_lanes():
    def bytes_of(**fields):
        spec, plain = parse_spec({"dataset": "d", **fields}), manifest(1_000)
        rows = replace(plain, weights=WeightCounts.of_ones(1_000))
        return [memory_of(spec, each, 1, 8).rows_bytes for each in (plain, rows)]

    plain, weighted = bytes_of()
    with_folds, with_both = bytes_of(folds=4)
    assert (with_both - with_folds) - (weighted - plain) == 8 * 1_000


def newton_of(memory_bytes=None, there_are=1 << 40, rows=5_000_000, features=28, **fields):
    """The bytes that a plan has for Newton steps, the equations they may have, and the share of the cache."""
    spec = parse_spec({"dataset": "d", "memory_bytes": memory_bytes, **fields})
    plan = plan_job(spec, manifest(rows, features), cores=2, memory_bytes=there_are)
    assert memory_bytes is None or estimate(plan)["memory"]["total_bytes"] <= memory_bytes
    return estimate(plan)["memory"]["newton_bytes"], plan.newton.equations, plan.cache.cache_bytes


def test_newton_steps_take_the_place_of_momentum():
    n_bytes, equations, _ = newton_of()
    # Codes, C, m and its change; momentum's copy of alpha has gone.
    assert 5_000_000 * (4 + 24 - 8) < n_bytes < 5_000_000 * 20 + (10 << 20)
    assert equations == LARGEST
    assert newton_of(640 << 20)[:2] == (n_bytes, equations)


def test_a_system_is_as_large_as_what_is_left_allows():
    rows, features = 100_000, 1_000_000
    found = [newton_of(memory, rows=rows, features=features) for memory in (470 << 20, 800 << 20, 2 << 30, 8 << 30)]
    n_bytes, equations, cache = zip(*found, strict=True)
    assert list(equations) == sorted(set(equations)) and equations[0] == 0 and equations[-1] == LARGEST
    assert n_bytes[0] == 0 and list(cache) == sorted(cache)
    assert 4000 < equations[2] < LARGEST


def test_without_memory_bytes_the_machine_is_the_limit():
    assert newton_of(there_are=700 << 20)[1] == 0
    assert newton_of(there_are=900 << 20)[1] == LARGEST


def test_lanes_side_by_side_come_before_newton_steps():
    values = {"C": [0.1 * (k + 1) for k in range(16)]}
    narrow, wide = (newton_of(1 << 30, rows=1000, features=width, **values) for width in (100, 500_000))
    assert narrow[1] == LARGEST and wide[1] == 0


def test_as_few_blocks_as_fit():
    found = plan(LABELS, solver="bm", cache_bytes=CACHE)
    room = found.cache.sure_bytes(40)
    assert SIZE / found.blocks + packed_bytes(1, 40) <= room < SIZE / (found.blocks - 1) + packed_bytes(1, 40)
    more = plan(LABELS, solver="bm", cache_bytes=CACHE, solver_options={"n_blocks": found.blocks + 5})
    assert more.blocks == found.blocks + 5
    assert run_file(found, "d")["reader"]["blocks"] == found.blocks
    assert plan(LABELS, solver="bm", cache_bytes=3 * SIZE).blocks == 1


def test_blocks_that_do_not_fit_are_refused_with_the_arithmetic():
    fewest = plan(LABELS, solver="bm", cache_bytes=CACHE).blocks
    error = refusal(LABELS, solver="bm", cache_bytes=CACHE, solver_options={"n_blocks": fewest - 1})
    assert error.code == "n_blocks_range"
    assert re.search(rf"{SIZE} bytes.* {CACHE} bytes.* {fewest} or more", error.message)
    assert refusal(LABELS, solver="bm", solver_options={"n_blocks": 50_001}).code == "n_blocks_range"


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
