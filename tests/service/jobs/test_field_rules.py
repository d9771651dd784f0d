"""The table of what cannot go together: each of its rules is there for a job that breaks it, and tells what to do."""

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.spec import RULES, JobSpec, check_rules, parse_spec
from streamsvm.storage.options import Option
from tests.refusals import refused

_RBF = {"kernel": "rbf", "solver": "bsca"}
_MACHINES = {"machines": 2}
_SIGMOID = {"probability": "sigmoid"}


def other_than_default(field: Option):
    if field.choices:
        return next(choice for choice in field.choices if choice != field.default)
    return {bool: not field.default, int: 7, float: 0.25}.get(field.kind, 1.0)


BROKEN = [
    ({"kernel": "rbf", "solver": "dcd"}, "kernel_solver"),
    *(({**_RBF, name: value}, "kernel_solver") for name, value in
      (("features", ["unit"]), ("bias", 1.0), ("relative_gap", 0.1), ("warm_start", "job_" + "0" * 26))),
    ({"solver": "bm", "loss": "logistic"}, "solver_loss"),
    ({"solver": "dcd", "multiclass": "crammer_singer"}, "multiclass_range"),
    ({"folds": 2, "scoring": "neg_mean_squared_error"}, "scoring_range"),
    ({"loss": "epsilon_insensitive", "scoring": "neg_mean_squared_error", **_SIGMOID}, "probability_range"),
    ({"loss": "logistic", **_SIGMOID}, "probability_range"),
    ({"refit": False, "folds": 2, **_SIGMOID}, "probability_range"),
    ({"folds": 2, "warm_start": "job_" + "0" * 26}, "warm_start"),
    ({"folds": 2, "scoring": "neg_log_loss"}, "scoring_range"),
    ({"folds": 2, "validation": 0.1}, "folds_range"),
    ({"C": "auto-1se", "validation": 0.1}, "folds_range"),
    ({"model_name": "mdl_x"}, "model_name_range"),
    ({"model_name": "churn", "folds": 2, "refit": False}, "model_name_range"),
    ({"combine": "average"}, "machines_range"),
    ({**_MACHINES, "solver": "dcd"}, "machines_range"),
    ({**_MACHINES, "multiclass": "crammer_singer"}, "machines_range"),
    ({**_MACHINES, "pace": "fixed"}, "machines_range"),
    ({**_MACHINES, "C": "auto"}, "machines_range"),
    ({"labels": {"a" * 101: ""}}, "labels_range"),
    ({"memory_bytes": 1 << 30, "cache_bytes": 1 << 20}, "memory_bytes_range"),
    *(({name: other_than_default(field)}, "kernel_solver" if "kernel" in field.needs else "solver_loss")
      for name, field in FIELDS.items() if field.needs.keys() & {"kernel", "loss"}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), BROKEN, ids=lambda part: "-".join(part) if isinstance(part, dict) else "")
def test_a_job_that_breaks_a_rule_is_refused_with_a_hint(fields, code):
    with refused(ServiceError, code) as caught:
        check_rules(JobSpec(dataset="d", **fields))
    assert "{" not in caught.value.message + caught.value.hint


def test_every_rule_is_broken_by_one_of_them():
    specs = [JobSpec(dataset="d", **fields) for fields, _ in BROKEN]
    assert [rule for rule in RULES if not any(map(rule.is_broken, specs))] == []


@pytest.mark.parametrize(
    "fields",
    [{}, {"kernel": "rbf", "gamma": 2.0}, {"loss": "epsilon_insensitive", "epsilon": 0.5},
     {"folds": 2, "probability": "sigmoid", "scoring": "neg_log_loss"}, {"machines": 2, "combine": "average"}],
)  # fmt: skip
def test_jobs_that_break_none(fields):
    parse_spec({"dataset": "d", **fields})


def test_a_field_for_others_is_told_with_what_it_is_for():
    with pytest.raises(ServiceError) as caught:
        parse_spec({"dataset": "d", "epsilon": 0.5})
    assert caught.value.problem()["code"] == "solver_loss"
    assert caught.value.message == 'loss "hinge" has no epsilon'
    assert caught.value.hint == "It is for loss epsilon_insensitive, squared_epsilon_insensitive."
