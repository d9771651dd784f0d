"""Faster ways that a job gives up before it begins, and how those of an attempt are shown."""

from dataclasses import replace

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.forecast import planned
from streamsvm.service.jobs.plan.plan import plan_following, plan_job
from streamsvm.service.jobs.progress.progress import told_last
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.run.slowdowns import SLOWDOWNS, bits_of, told

ROWS = Manifest("u", 1, 1000, 100_000, 5_000_000, {-1.0: 50_000, 1.0: 50_000}, 100, 1000, {}, ())
LARGE, SMALL = {"cache_bytes": 1 << 27}, {"cache_bytes": 1 << 23}  # decoded, the rows take 42 MB
MANY = {"C": [0.1 * 1.5**k for k in range(16)]}


def codes(manifest=ROWS, scales=(), **fields):
    return planned(plan_job(parse_spec({"dataset": "d", **fields}), manifest, cores=4), scales)


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        (LARGE, False),
        (SMALL, False),  # the disk has them
        ({**SMALL, "pace": "fixed"}, True),
        ({**LARGE, "pace": "fixed"}, False),
        ({**SMALL, "solver_options": {"spill": False}}, False),  # as asked for
        ({**SMALL, "solver": "bm"}, True),
        ({**SMALL, "solver": "bm", "solver_options": {"n_blocks": 20}}, False),
        ({**LARGE, "solver": "bm"}, False),
        ({**SMALL, "solver": "cpa"}, True),
        ({**SMALL, "solver": "streamsvm_paper"}, True),
    ],
    ids=str,
)
def test_rows_that_each_pass_decodes_anew(fields, is_told):
    assert ("cache_too_small" in codes(**fields)) == is_told


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, False),
        ({"threads": 1}, False),
        ({"threads": 2}, False),
        ({"threads": 2, "pace": "fixed"}, True),
        ({"threads": 1, "pace": "fixed"}, False),
        ({"threads": 2, "solver": "dcd"}, True),
        ({"threads": 2, "solver": "dcd", "loss": "logistic"}, True),
        ({"threads": 2, "loss": "logistic"}, False),
        ({"threads": 2, "solver": "ocas"}, False),
        ({"threads": 2, "kernel": "rbf", "pace": "fixed"}, False),
    ],
    ids=str,
)
def test_threads_that_have_nothing_to_share(fields, is_told):
    assert ("one_thread" in codes(**LARGE, **fields)) == is_told


@pytest.mark.parametrize(("features", "is_told"), [(1000, False), (10_000_000, True)])
def test_lanes_that_memory_has_no_room_for_side_by_side(features, is_told):
    wide = replace(ROWS, n_features=features)
    assert ("lanes_apart" in codes(wide, **MANY)) == is_told
    assert "lanes_apart" not in codes(wide, C=[0.1, 1.0], solver="dcd", cache_bytes=1 << 27)  # never has them


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, True),
        ({"threads": 1}, False),
        ({"pace": "fixed"}, False),
        ({"features": ["scale"]}, False),  # makes none
        ({"C": [0.1, 1.0]}, False),  # lanes share one w
    ],
    ids=str,
)
def test_features_that_one_thread_makes_for_want_of_room(fields, is_told):
    makes = {"features": ["pairs"], "cache_bytes": 1 << 27}
    assert ("certified_alone" in codes(replace(ROWS, n_features=2000), **{**makes, **fields})) == is_told
    assert "certified_alone" not in codes(replace(ROWS, n_features=100), **{**makes, **fields})


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, False),  # Newton steps make up for it
        ({"solver": "dcd", "cache_bytes": 1 << 27}, True),
        ({"pace": "fixed"}, True),
        ({"tolerance": None, "relative_gap": None}, True),
        ({"kernel": "rbf"}, True),
        ({"pace": "fixed", "features": ["scale"]}, False),
    ],
    ids=str,
)
def test_scales_far_apart_that_nothing_makes_up_for(fields, is_told):
    scales = ((1, 1e5), (2, 1.0))
    assert ("scales_differ" in codes(scales=scales, **fields)) == is_told
    assert "scales_differ" not in codes(**fields)


def test_scales_far_apart_of_so_many_features_that_newton_steps_may_be_too_large():
    wide = replace(ROWS, n_features=10_000)
    assert "scales_differ" in codes(wide, scales=((1, 1e5), (2, 1.0)))
    few = replace(wide, n_rows=1000, labels={-1.0: 500, 1.0: 500})
    assert "scales_differ" not in codes(few, scales=((1, 1e5), (2, 1.0)))
    classes = replace(ROWS, labels=dict.fromkeys(map(float, range(23)), 4000))  # a Newton step of each takes its time
    assert "scales_differ" in codes(classes, scales=((1, 1e5), (2, 1.0)))
    assert "scales_differ" not in codes(classes, scales=((1, 1e5), (2, 1.0)), features=["scale"])


def test_of_a_dataset_that_is_being_read_in_nothing_is_known():
    assert not planned(plan_following(parse_spec({"dataset": "d"}), 1000))


def test_bits_say_which_and_each_has_a_hint():
    assert [each["code"] for each in told(bits_of(SLOWDOWNS))] == list(SLOWDOWNS)
    twice = told(bits_of(["one_thread", "disk_full", "one_thread"]))
    assert [each["code"] for each in twice] == ["disk_full", "one_thread"]
    assert all(each["message"] and each["hint"].endswith(".") for each in told(bits_of(SLOWDOWNS)))
    assert told(0) == []


def test_those_of_the_last_attempt_are_shown():
    full, slow = told(bits_of(["disk_full"])), told(bits_of(["disk_slow"]))
    first, second = {"state": "running", "slowdowns": full}, {"state": "running", "slowdowns": slow}
    steps = [{"state": "queued"}, first, {"state": "queued"}]
    assert told_last({"state": "queued", "transitions": steps}) == []
    assert told_last({"state": "running", "transitions": [*steps, {"state": "running"}]}) == []
    assert told_last({"state": "failed", "transitions": [*steps, second, {"state": "failed"}]}) == slow
