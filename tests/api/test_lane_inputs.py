"""Bad inputs of jobs of several lanes: each is refused at once by a code of its own, with a hint."""

import numpy as np
import pytest

from tests.api.app import check_problem
from tests.contracts.problems import random_problem

ROWS = 60


def with_labels(service, labels):
    X, _ = random_problem(ROWS, 20)
    service.add_dataset("d", X, np.resize(labels, ROWS))


def refused(service, code, **fields):
    """(detail, hint) of a job that is refused, and leaves nothing."""
    found = check_problem(service.request("POST", "/v1/jobs", json={"dataset": "d", **fields}), code, 422)
    assert service.store.jobs() == []
    return found["detail"], found["hint"]


@pytest.mark.parametrize("fields", [{"folds": 2}, {"folds": 5, "C": [1.0, 2.0]}, {"probability": "sigmoid"}])
def test_a_class_with_one_row_has_no_folds(service, fields):
    X, _ = random_problem(ROWS, 20)
    service.add_dataset("d", X, np.where(np.arange(ROWS) == 7, 3.0, np.arange(ROWS) % 2))
    detail, hint = refused(service, "fold_without_class", **fields)
    assert "label 3" in detail and "row" in hint
    # All rows together can be trained on.
    assert service.request("POST", "/v1/jobs", json={"dataset": "d"}).status_code == 202


def test_more_folds_than_rows_are_refused_before_any_is_trained(service):
    with_labels(service, [1.0, -1.0])
    detail, _ = refused(service, "empty_fold", folds=ROWS + 1)
    assert str(ROWS) in detail


@pytest.mark.parametrize("labels", [np.arange(ROWS), np.arange(ROWS) / 7, np.arange(ROWS) // 2 + 0.5 * np.arange(ROWS)])
def test_labels_nearly_all_distinct_are_asked_about_regression(service, labels):
    with_labels(service, labels)
    detail, hint = refused(service, "too_many_classes")
    assert f"in {ROWS} rows" in detail and "regression" in hint
    regression = {"dataset": "d", "loss": "epsilon_insensitive", "solver": "dcd", "folds": 3}
    shown = service.request("POST", "/v1/jobs", json=regression).json()
    assert (shown["state"], shown["spec"]["select_by"]) == ("queued", "mse")


@pytest.mark.parametrize("C", [[], [0.0], [1.0, -1.0], [1.0, 1e13], 0.0])
def test_values_of_C_that_are_none(service, C):
    with_labels(service, [0, 1])
    assert "list" in refused(service, "C_range", C=C)[1]


def test_ten_thousand_values_of_C_are_refused_with_the_arithmetic(service):
    with_labels(service, [0, 1, 2])
    detail, hint = refused(service, "lanes_range", C=np.linspace(0.1, 1, 10_000).tolist(), folds=2)
    assert "3 classes x 10000 values of C x 3 folds" in detail and "90000 problems" in detail
    assert "1000" in hint


@pytest.mark.parametrize("C", [[10.0, 0.1, 1.0], [0.1, 1.0, 1.0, 10.0]])
def test_values_of_C_that_do_not_ascend_are_sorted_and_that_is_said(service, C):
    with_labels(service, [0, 1])
    (warning,) = service.request("POST", "/v1/jobs", json={"dataset": "d", "C": C}).json()["warnings"]
    assert warning["code"] == "C_sorted" and "0.1, 1, 10" in warning["message"]
    for fine in ([0.1, 1.0, 10.0], 0.1, [3.0]):
        assert service.request("POST", "/v1/jobs", json={"dataset": "d", "C": fine}).json()["warnings"] == []
