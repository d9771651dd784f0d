"""The table of what cannot go together: each of its rules is there for a job that breaks it, and tells what to do."""

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.spec import RULES, JobSpec, check_rules, parse_spec
from streamsvm.storage.options import Option

_RBF = {"kernel": "rbf", "solver": "bsca"}
_MACHINES = {"machines": 2}
_SIGMOID = {"probability": "sigmoid"}


def other_than_default(field: Option):
    if field.choices:
        return next(choice for choice in field.choices if choice != field.default)
    return {bool: not field.default, int: 7, float: 0.25}.get(field.kind, 1.0)


BROKEN = [
    {"kernel": "rbf", "solver": "dcd"},
    *({**_RBF, name: value} for name, value in
      (("features", ["unit"]), ("bias", 1.0), ("relative_gap", 0.1), ("warm_start", "job_" + "0" * 26))),
    {"solver": "bm", "loss": "logistic"},
    {"solver": "dcd", "multiclass": "crammer_singer"},
    {"folds": 2, "scoring": "neg_mean_squared_error"},
    {"loss": "epsilon_insensitive", "scoring": "neg_mean_squared_error", **_SIGMOID},
    {"loss": "logistic", **_SIGMOID},
    {"refit": False, "folds": 2, **_SIGMOID},
    {"folds": 2, "warm_start": "job_" + "0" * 26},
    {"folds": 2, "scoring": "neg_log_loss"},
    {"folds": 2, "validation": 0.1},
    {"C": "auto-1se", "validation": 0.1},
    {"model_name": "mdl_x"},
    {"model_name": "churn", "folds": 2, "refit": False},
    {"combine": "average"},
    {**_MACHINES, "solver": "dcd"},
    {**_MACHINES, "multiclass": "crammer_singer"},
    {**_MACHINES, "pace": "fixed"},
    {**_MACHINES, "C": "auto"},
    {"labels": {"a" * 101: ""}},
    {"memory_bytes": 1 << 30, "cache_bytes": 1 << 20},
    *({name: other_than_default(field)} for name, field in FIELDS.items() if field.needs.keys() & {"kernel", "loss"}),
]  # fmt: skip


@pytest.mark.parametrize("fields", BROKEN, ids=lambda fields: "-".join(fields))
def test_a_job_that_breaks_a_rule_is_refused_with_a_hint(fields):
    with pytest.raises(ServiceError) as caught:
        check_rules(JobSpec(dataset="d", **fields))
    assert caught.value.hint and "{" not in caught.value.message + caught.value.hint


def test_every_rule_is_broken_by_one_of_them():
    specs = [JobSpec(dataset="d", **fields) for fields in BROKEN]
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
