"""From a job and a dataset to a plan: what is refused, what a class weighs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.memory import threads_of
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.blocks.manifest import Manifest, WeightCounts
from streamsvm.storage.rows.cache_plan import CachePlan, plan_cache
from streamsvm.trainer.solvers import SOLVERS, TRAINS_WEIGHTS
from tests.refusals import refused


def manifest(labels: dict[float, int] | None = None, longest_row: int = 40) -> Manifest:
    labels = labels if labels is not None else {-1.0: 30, 1.0: 20}
    n_rows = sum(labels.values())
    return Manifest("u", 1, 50, n_rows, 10 * n_rows, labels, longest_row, 1000, {}, ())


def plan(labels=None, longest_row=40, **fields):
    return plan_job(parse_spec({"dataset": "d", **fields}), manifest(labels, longest_row))


def refusal(*arguments, **fields) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        plan(*arguments, **fields)
    return caught.value


def test_one_class_is_too_few():
    assert refusal({2.0: 5}).code == "single_class"


def test_the_larger_label_is_the_positive_side():
    found = plan({3.0: 5, -7.0: 5})
    assert found.labels == (3.0, -7.0) and [lane.positive for lane in found.lanes] == [3.0]


def test_weights_are_not_ignored():
    """Who does not train with them is refused."""
    weighted = replace(manifest(), weights=WeightCounts(1.0, 50.0, 1.0, 0))
    for solver, loss in [(name, loss) for name, known in SOLVERS.items() for loss in known.losses]:
        spec = parse_spec({"dataset": "d", "solver": solver, "loss": loss})
        if SOLVERS[solver].has_kernel:
            assert plan_job(spec, weighted).lanes
            continue
        if solver in TRAINS_WEIGHTS:
            told = run_file(plan_job(spec, weighted), Path("d"))
            assert told["trainer"]["largest_weight"] == 1.0 and told["reader"]["has_weights"]
            continue
        with pytest.raises(ServiceError) as caught:
            plan_job(spec, weighted)
        assert (caught.value.code, bool(caught.value.hint)) == ("weights_not_supported", True)


def test_folds_are_left_out_by_those_alone_who_know_weights():
    for solver in SOLVERS:
        if solver in TRAINS_WEIGHTS:
            assert len(plan(solver=solver, folds=2).lanes) == 3
        else:
            assert refusal(solver=solver, folds=2).code == "folds_solver"
    weighted = replace(manifest(), weights=WeightCounts(0.0, 50.0, 1.0, 3))
    with refused(ServiceError, "folds_weights"):
        plan_job(parse_spec({"dataset": "d", "folds": 2}), weighted)


def test_classes_that_are_strings_are_named():
    named = replace(manifest({0.0: 30, 1.0: 20}), label_names=("ham", "spam"))

    def plan_named(**fields):
        return plan_job(parse_spec({"dataset": "d", **fields}), named)

    found = plan_named(class_weight={"spam": 3.0}, C=2.0)
    lane = found.lane
    assert (lane.positive, lane.label, lane.C_positive, lane.C_negative) == (1.0, "spam", 6.0, 2.0)
    assert (found.labels, found.model_labels) == ((1.0, 0.0), ("spam", "ham"))
    for fields, code, told in (
        ({"class_weight": {"1": 3.0}}, "unknown_label", "ham, spam"),
        ({"loss": "epsilon_insensitive", "solver": "dcd"}, "label_not_numeric", "classes"),
    ):
        with refused(ServiceError, code) as caught:
            plan_named(**fields)
        assert told in caught.value.hint
    with pytest.raises(ServiceError, match="all rows have the label spam"):
        plan_job(parse_spec({"dataset": "d"}), replace(named, labels={1.0: 50}))


@pytest.mark.parametrize("longest_row", [1, 40, 5_000, 1_000_000])
@pytest.mark.parametrize("bias", [None, 1.0])
def test_a_cache_too_small_states_the_least_that_works(longest_row, bias):
    error = refusal(None, longest_row, cache_bytes=1, bias=bias)
    assert error.code == "cache_too_small"
    least = int(re.search(r"at least (\d+) bytes", error.hint).group(1))
    assert plan(None, longest_row, cache_bytes=least, bias=bias).cache.cache_bytes == least
    assert refusal(None, longest_row, cache_bytes=least // 2, bias=bias).code == "cache_too_small"


@pytest.mark.parametrize(("label", "positive", "negative"), [("1", 6.0, 2.0), ("+1.0", 6.0, 2.0), ("-1", 2.0, 6.0)])
def test_a_class_weight_is_a_factor_of_C(label, positive, negative):
    found = plan(C=2.0, class_weight={label: 3.0})
    assert (found.lane.C_positive, found.lane.C_negative) == (positive, negative)


@pytest.mark.parametrize("label", ["2", "spam", "nan", ""])
def test_a_weight_for_a_label_the_data_lacks(label):
    error = refusal(class_weight={label: 2.0})
    assert error.code == "unknown_label" and "-1, 1" in error.hint


def test_a_bias_makes_w_one_longer():
    assert plan(bias=1.0).width == plan().width == plan(bias=None).width + 1 == 52


@pytest.mark.parametrize(
    ("longest_row", "cache_bytes", "spills"),
    [
        (1_000, 1 << 30, False),
        (140_000, 1 << 30, True),  # a segment of 2 MiB has room for one row, and the cache for half of what it is
        (140_000, 1 << 32, False),
    ],
)
def test_rows_go_to_disk_unless_the_cache_is_sure_to_hold_them(longest_row, cache_bytes, spills):
    own = replace(manifest({-1.0: 350, 1.0: 350}, longest_row), nnz=700 * longest_row)
    found = plan_job(parse_spec({"dataset": "d", "cache_bytes": cache_bytes, "bias": 1.0}), own)
    assert found.spills == spills
    told = run_file(found, Path("somewhere"))
    assert told["reader"]["keeps_all"] and bool(told["trainer"]["spill_directory"]) == spills


def test_reader_and_trainer_are_told_the_same_problem():
    told = run_file(plan(C=2.0, class_weight={"1": 3.0}, seed=5, loss="squared_hinge"), "somewhere")
    shared = ("tasks", "seed", "cache")
    assert {name: told["reader"][name] for name in shared} == {name: told["trainer"][name] for name in shared}
    assert told["reader"]["dataset"] == "somewhere"
    assert CachePlan(**told["reader"]["cache"]) == plan().cache == plan_cache(plan().spec.cache_bytes, 40)


def test_the_reader_is_told_what_leaves_the_cache():
    evicts = {name: run_file(plan(solver=name), "d")["reader"]["evicts"] for name in ("streamsvm", "streamsvm_paper")}
    assert evicts == {"streamsvm": "score", "streamsvm_paper": "random"}


@pytest.mark.parametrize(("fields", "threads"), [({}, 2), ({"memory_bytes": 1 << 30}, 1)])
def test_of_fixed_pace_threads_share_what_comes_out_the_same(fields, threads):
    spec = parse_spec({"dataset": "d", "kernel": "rbf", "pace": "fixed", "threads": 2, **fields})
    assert threads_of(spec, 3) == threads


@pytest.mark.parametrize(
    ("fields", "trainer", "reader"),
    [
        ({}, 3, 3),
        ({"pace": "fixed"}, 1, 3),
        ({"threads": 2}, 2, 2),
        ({"threads": 1000}, 1000, 3),
        ({"threads": 2, "pace": "fixed"}, 1, 2),
        ({"solver": "ocas", "pace": "fixed", "threads": 2}, 1, 2),
    ],
)
def test_both_are_told_how_many_threads(fields, trainer, reader):
    found = plan_job(parse_spec({"dataset": "d", **fields}), manifest(), cores=3)
    told = run_file(found, "d")
    assert (told["trainer"]["threads"], told["reader"]["threads"]) == (trainer, reader)
    assert found.threads == trainer and found.spec.threads == fields.get("threads")
