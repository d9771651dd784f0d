"""What a job may ask for, and where it may go."""

import json
from itertools import pairwise

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import format_size, parse_size
from streamsvm.service.jobs.fields.spec import parse_spec, read_spec
from streamsvm.service.jobs.progress.states import TRANSITIONS, check_transition, score_of
from streamsvm.service.records.database import new_id, now
from tests.refusals import refused

FAULTS = [
    ({"C": 0}, "C_range"),
    ({"C": 1e13}, "C_range"),
    ({"C": "1"}, "wrong_type"),
    ({"C": True}, "wrong_type"),
    ({"C": None}, "wrong_type"),
    ({"C": float("nan")}, "not_finite"),
    ({"C": 10**400}, "wrong_type"),
    ({"C": [1.0, "x"]}, "wrong_type"),
    ({"bias": float("-inf")}, "not_finite"),
    ({"bias": 1e38}, "bias_range"),
    ({"tolerance": 0.0}, "tolerance_range"),
    ({"relative_gap": 0.0}, "relative_gap_range"),
    ({"seed": -1}, "seed_range"),
    ({"seed": 1 << 63}, "seed_range"),
    ({"seed": 10**400}, "seed_range"),
    ({"seed": 1.5}, "wrong_type"),
    ({"max_passes": 0}, "max_passes_range"),
    ({"max_seconds": 0}, "max_seconds_range"),
    ({"cache_bytes": 0}, "cache_bytes_range"),
    ({"cache_bytes": 1 << 62}, "cache_bytes_range"),
    ({"cache_bytes": "1MiB"}, "wrong_type"),
    ({"memory_bytes": 0}, "memory_bytes_range"),
    ({"loss": "huber"}, "loss_range"),
    ({"solver": "magic"}, "solver_range"),
    ({"solver": "streamsvm_paper", "solver_options": {"epsilon_decay": "step"}}, "epsilon_decay_range"),
    ({"pace": "slow"}, "pace_range"),
    ({"solver": "bsca", "solver_options": {"selection": "greedy"}}, "selection_range"),
    ({"threads": 0}, "threads_range"),
    ({"threads": 1025}, "threads_range"),
    ({"threads": 1.0}, "wrong_type"),
    ({"class_weight": {"1": 0}}, "class_weight_range"),
    ({"class_weight": {"1": 1e300}}, "class_weight_range"),
    ({"class_weight": [1]}, "wrong_type"),
    ({"labels": {"team": 1}}, "wrong_type"),
    ({"labels": {str(i): "" for i in range(65)}}, "labels_range"),
    ({"labels": {"a": "b" * 257}}, "labels_range"),
    ({"class_weight": {str(i): 1 for i in range(1001)}}, "class_weight_range"),
    ({"dataset": 7}, "wrong_type"),
    ({"kernel": "poly"}, "kernel_range"),
    ({"kernel": "linear", "solver": "bsca"}, "kernel_solver"),
    ({"kernel": "rbf", "gamma": 0}, "gamma_range"),
    ({"kernel": "rbf", "gamma": "auto"}, "gamma_range"),
    ({"kernel": "rbf", "gamma": None}, "wrong_type"),
    ({"kernel": "rbf", "loss": "squared_hinge"}, "solver_loss"),
    ({"kernel": "rbf", "budget": 1}, "budget_range"),
    ({"solver_options": {"momentum": 0.9}}, "solver_option"),
    ({"solver_options": {"pace": "fixed"}}, "solver_option"),
    ({"solver_options": {"screening": float("nan")}}, "not_finite"),
    ({"solver_options": {"spill": None}}, "wrong_type"),
    ({"solver_options": None}, "wrong_type"),
    ({"spill": False}, "unknown_field"),
    ({"kernel": "rbf", "multiclass": "crammer_singer"}, "multiclass_range"),
    ({"folds": 1}, "folds_range"),
    ({"folds": 2, "scoring": "accuracy", "loss": "epsilon_insensitive"}, "scoring_range"),
    ({"probability": "sigmoid", "refit": False}, "probability_range"),
    ({"features": ["skale"]}, "features_range"),
    ({"features": [{"pairs": {"bits": 99}}]}, "features_range"),
    ({"features": [{"pairs": {"bits": 8}, "unit": {}}]}, "features_range"),
    ({"features": [{"scale": {"of": 1}}]}, "features_range"),
    ({"features": ["unit"] * 9}, "features_range"),
    ({"features": [["scale"]]}, "wrong_type"),
    ({"c": 1.0}, "unknown_field"),
]


@pytest.mark.parametrize(("fields", "code"), FAULTS, ids=[f"{next(iter(f))}-{code}" for f, code in FAULTS])
def test_every_wrong_field_has_its_code(fields, code):
    with refused(ServiceError, code) as caught:
        parse_spec({"dataset": "d", **fields})
    assert caught.value.message
    json.dumps(caught.value.problem(), allow_nan=False)


def test_the_dataset_is_all_that_is_needed():
    spec = parse_spec({"dataset": "d"})
    assert (spec.solver, spec.loss, spec.C, spec.relative_gap, spec.seed) == ("streamsvm", "hinge", 1.0, 1e-4, 0)
    assert spec.bias == 1.0 and spec.class_weight is spec.tolerance is spec.max_seconds is None
    with pytest.raises(ServiceError) as caught:
        parse_spec({"C": 1.0})
    assert caught.value.code == "missing_field" and "dataset" in caught.value.message


@pytest.mark.parametrize(
    ("fields", "code", "hint"),
    [
        ({"datset": "d"}, "unknown_field", "Did you mean dataset? /reference has all fields."),
        ({"datset": "d", "C": "1"}, "unknown_field", "Did you mean dataset? /reference has all fields."),
        ({"dataset": "d", "c": 1}, "unknown_field", "Did you mean C? "),
        ({"dataset": "d", "max_iter": 1}, "unknown_field", "max_passes is the most passes over the data."),
        ({"dataset": "d", "fit_intercept": False}, "unknown_field", '"bias": null trains without an intercept'),
        ({"dataset": "d", "zzz": 1}, "unknown_field", "Known fields: dataset, solver"),
        ({"dataset": "d", "C": "1"}, "wrong_type", 'Write it without quotes: "C": 1. C may be number above 0'),
        ({"dataset": "d", "max_passes": "10"}, "wrong_type", 'Write it without quotes: "max_passes": 10. '),
        ({"dataset": "d", "C": "0.1,1"}, "wrong_type", "C may be number above 0, up to 1e12, a list of them: [0.1,"),
        ({"dataset": "d", "refit": "perhaps"}, "wrong_type", "refit may be true, false: whether"),
        ({"dataset": "d", "class_weight": {"a": "2"}}, "wrong_type", "class_weight may be object, label -> number"),
        (
            {"dataset": "d", "solver_options": {"updates_per_row": "4"}},
            "wrong_type",
            'Write it without quotes: "updates_per_row": 4. updates_per_row may be number above 0 up to 1,000: ',
        ),
        ({"dataset": "d", "solver_options": 4}, "wrong_type", "solver_options may be object, option -> value"),
        ({"dataset": "d", "solver_options": {"spil": 4}}, "solver_option", "Did you mean spill? It has updates_per_"),
        (
            {"dataset": "d", "solver_options": {"pace": "fixed"}},
            "solver_option",
            "pace is a field of every job: give it beside solver_options. ",
        ),
        ({"dataset": 7}, "wrong_type", "dataset may be text: name of the dataset"),
    ],
)
def test_what_was_mistyped_is_named(fields, code, hint):
    with pytest.raises(ServiceError) as caught:
        parse_spec(fields)
    assert caught.value.code == code and caught.value.hint.startswith(hint)


@pytest.mark.parametrize("written", ["yes", "True", 1, True, "no", "FALSE", 0, False])
def test_a_truth_value_is_written_as_people_write_it(written):
    truth = str(written).lower() in ("yes", "true", "1")
    spec = parse_spec({"dataset": "d", "refit": written, "solver_options": {"spill": written}})
    assert spec.refit == spec.solver_options["spill"] == truth


@pytest.mark.parametrize(
    "fields",
    [{"kernel": "rbf"}, {"solver": "bsgd"}, {"features": ["bias"]}, {"features": ["scale", {"bias": {"value": 2.0}}]}],
    ids=str,
)
def test_there_is_no_second_constant_feature_and_none_beside_a_kernel(fields):
    assert parse_spec({"dataset": "d", **fields}).bias is None
    assert parse_spec({"dataset": "d", **fields, "bias": None}).bias is None


def test_null_switches_a_stop_rule_off_and_an_integer_is_a_number():
    spec = parse_spec({"dataset": "d", "tolerance": None, "C": 2, "bias": 1})
    assert spec.tolerance is spec.relative_gap is None and spec.C == 2.0 and spec.bias == 1.0


@pytest.mark.parametrize(
    ("given", "tolerance", "relative_gap"),
    [
        ({}, None, 1e-4),
        ({"tolerance": 0.1}, 0.1, None),
        ({"tolerance": None}, None, None),
        ({"relative_gap": 0.1}, None, 0.1),
        ({"relative_gap": None}, None, None),
        ({"tolerance": 0.1, "relative_gap": 1e-4}, 0.1, 1e-4),
        ({"kernel": "rbf"}, 1e-3, None),
        ({"solver": "bsgd"}, 1e-3, None),
        ({"kernel": "rbf", "relative_gap": None}, 1e-3, None),
        ({"kernel": "rbf", "tolerance": None}, None, None),
    ],
)
def test_a_tolerance_alone_ends_a_job_and_a_relative_gap_one_that_says_nothing(given, tolerance, relative_gap):
    spec = parse_spec({"dataset": "d", **given})
    assert (spec.tolerance, spec.relative_gap) == (tolerance, relative_gap)
    assert parse_spec(spec.model_dump()) == spec == read_spec(spec.model_dump())


def test_unknown_field_is_not_repeated_but_the_known_are_named():
    with pytest.raises(ServiceError) as caught:
        parse_spec({"dataset": "d", "<script>": 1})
    assert "<script>" not in json.dumps(caught.value.problem())
    assert "cache_bytes" in caught.value.hint


LEGAL = {
    ("queued", "running"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("running", "succeeded"),
    ("running", "stopped"),
    ("running", "failed"),
    ("running", "cancelled"),
}


@pytest.mark.parametrize("new", TRANSITIONS)
@pytest.mark.parametrize("old", TRANSITIONS)
def test_only_the_legal_transitions_pass(old, new):
    if (old, new) in LEGAL:
        check_transition(old, new)
        return
    with refused(ServiceError, "not_possible"):
        check_transition(old, new)


def test_ids_are_unique_and_sort_by_time(monkeypatch):
    assert len({new_id("job") for _ in range(10_000)}) == 10_000
    clock = iter(range(10**18, 10**18 + 50_000_000, 1_000_000))
    monkeypatch.setattr("streamsvm.service.records.database.time.time_ns", lambda: next(clock))
    ids = [new_id("job") for _ in range(50)]
    assert all(earlier < later for earlier, later in pairwise(ids))
    assert all(id_.startswith("job_") and len(id_) == 30 for id_ in ids)


def test_times_are_rfc_3339():
    assert now().endswith("Z") and now()[10] == "T"
    assert now() <= now()


@pytest.mark.parametrize(
    ("text", "size"),
    [("256MiB", 256 << 20), ("1000000", 10**6), ("4G", 4 * 10**9), ("1.5 KiB", 1536), (" 2gib ", 2 << 30), ("7B", 7)],
)
def test_sizes_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e6", "1_000", "256 MiB of RAM", "nan", "1PiB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_sizes_for_people():
    assert [format_size(size) for size in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 TiB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "solver"), [({"kernel": "rbf"}, "bsca"), ({"solver": "bsgd"}, "bsgd"), ({}, "streamsvm")]
)
def test_of_kernel_and_solver_one_tells_the_other(fields, solver):
    spec = parse_spec({"dataset": "d", **fields})
    assert (spec.solver, spec.kernel) == (solver, "rbf" if solver.startswith("bs") else "linear")


@pytest.mark.parametrize(
    ("text", "values"),
    [("1e-3:10:5", [0.001, 0.01, 0.1, 1.0, 10.0]), ("1:8:4", [1.0, 2.0, 4.0, 8.0]), ("8:1:2", [8.0, 1.0])],
)
def test_values_of_C_may_be_a_geometric_grid(text, values):
    spec = parse_spec({"dataset": "d", "C": text})
    assert values == spec.C and spec.Cs == tuple(sorted(values))


@pytest.mark.parametrize("text", ["1:2", "0:1:3", "1:10:1", "1:x:3", "-1:1:3", "1:10:-2", "best"])
def test_other_texts_are_no_values_of_C(text):
    with pytest.raises(ServiceError) as caught:
        parse_spec({"dataset": "d", "C": text})
    assert caught.value.code in ("wrong_type", "C_range") and '"auto"' in caught.value.hint


@pytest.mark.parametrize(("before", "now"), [("auc", "roc_auc"), ("r_squared", "r2"), ("f1", "f1")])
def test_a_stored_job_that_selects_by_a_metric_has_its_score(before, now):
    stored = parse_spec({"dataset": "d", "folds": 2}).model_dump()
    del stored["scoring"]
    assert read_spec({**stored, "select_by": before}).scoring == now


def test_a_result_of_before_has_its_score_under_the_old_name():
    cv = [{"C": 1.0, "folds": [{"r_squared": 0.5}], "mean": {"r_squared": 0.5}, "std": {"r_squared": 0.0}}]
    found = score_of({"cv": cv, "selected_C": 1.0}, {"scoring": "r2"})
    assert found == {"metric": "r_squared", "value": 0.5, "std": None, "folds": 1, "rows": "held_out"}
