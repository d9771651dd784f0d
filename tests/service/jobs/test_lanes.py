"""Which problems a job consists of."""

from dataclasses import replace

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.outcome import job_result, made_in_all
from streamsvm.service.jobs.plan.lanes import Lane, lanes_of
from streamsvm.service.jobs.plan.plan import plan_job
from tests.refusals import refused
from tests.service.jobs.test_problem import manifest, plan, refusal

THREE = {1.0: 5, 2.0: 5, 3.0: 5}


def test_two_labels_are_one_problem_and_more_one_each():
    assert [lane.positive for lane in plan().lanes] == [1.0]
    assert [lane.positive for lane in plan(THREE).lanes] == [1.0, 2.0, 3.0]
    assert plan(THREE).labels == (1.0, 2.0, 3.0)
    assert [lane.positive for lane in plan(THREE, loss="epsilon_insensitive", solver="dcd").lanes] == [None]


def test_values_of_C_ascend_each_once_class_by_class():
    found = plan(THREE, C=[1.0, 0.1, 1.0])
    assert [(lane.positive, lane.C) for lane in found.lanes] == [(k, C) for k in (1.0, 2.0, 3.0) for C in (0.1, 1.0)]


def test_values_of_C_in_turn_come_one_after_the_other_class_by_class():
    data = replace(manifest(THREE), Qii_spread=(1.0, 15.0, 1.0))
    found = plan_job(parse_spec({"dataset": "d", "C": [1000.0, 0.1], "folds": 2}), data)
    expected = [(C, label, fold) for C in (0.1, 1000.0) for label in THREE for fold in (0, 1, None)]
    assert [(lane.C, lane.positive, lane.fold) for lane in found.lanes] == expected


def test_against_the_rest_only_the_weight_of_the_class_counts():
    """As in LIBLINEAR."""
    found = plan(THREE, C=2.0, class_weight={"1": 3.0, "2": 5.0})
    assert [(lane.C_positive, lane.C_negative) for lane in found.lanes] == [(6.0, 2.0), (10.0, 2.0), (2.0, 2.0)]


@pytest.mark.parametrize("labels", [{float(k): 1 for k in range(30)}, {float(k): 1 + k % 2 for k in range(30)}, {}])
def test_labels_that_are_nearly_all_distinct_are_no_classes(labels):
    error = refusal(labels)
    assert error.code == "too_many_classes" and "label_column=-1" in error.hint and "regression" in error.hint


def test_a_thousand_problems_and_no_more():
    labels = (1.0, 2.0, 3.0, 4.0)
    spec = parse_spec({"dataset": "d", "C": [1.0 + k for k in range(251)]})
    with refused(ServiceError, "lanes_range") as caught:
        lanes_of(spec, labels, manifest(dict.fromkeys(labels, 5)))
    assert "regression" not in caught.value.hint
    assert len(lanes_of(spec, labels[:3], manifest(dict.fromkeys(labels, 5)))) == 753


def test_more_classes_than_problems_may_be_numbers_to_predict():
    labels = tuple(map(float, range(1001)))
    with refused(ServiceError, "lanes_range", "1001 classes") as caught:
        lanes_of(parse_spec({"dataset": "d"}), labels, manifest(dict.fromkeys(labels, 5)))
    assert "choose a loss of regression" in caught.value.hint


def reported(gap, converged=True, reason="tolerance"):
    certificate = {"gap": gap, "relative_duality_gap": gap, "primal_objective": 1.0}
    result = {"converged": converged, "stop_reason": reason, "passes": 2, "certificate": certificate}
    return {"result": result, "job_passes": 6}


def test_runs_add_up_what_they_made_and_lanes_side_by_side_share_it():
    runs = [(0, 5, 7, 16), (0, 5, 7, 16), (2, 9, 0, 0)]
    made = [{"run": run, "made": {"sweeps": s, "newton_steps": n, "scans": k}} for run, s, n, k in runs]
    assert made_in_all(made) == {"sweeps": 14, "newton_steps": 7, "scans": 16}


@pytest.mark.parametrize("other", [{"job_passes": 6}, {"run": 1, "made": {}}])
def test_a_run_without_counts_leaves_out_those_of_the_job(other):
    """A lane may have been trained by an older version."""
    assert made_in_all([{"run": 0, "made": {"sweeps": 5, "newton_steps": 0, "scans": 0}}, other]) == {}


def test_the_area_under_a_curve_is_of_two_classes():
    assert plan(folds=2, scoring="roc_auc").lanes
    assert refusal(THREE, folds=2, scoring="roc_auc").code == "scoring_range"


def test_a_job_has_converged_when_all_its_lanes_have():
    lanes = [Lane(float(k), float(k), None, 1.0, 1.0, 1.0) for k in range(3)]
    found = job_result(lanes, [reported(0.1), reported(0.3), reported(0.2)])
    assert found["converged"] and found["passes"] == 6 and found["certificate"]["gap"] == 0.3
    assert [lane["gap"] for lane in found["lanes"]] == [0.1, 0.3, 0.2]
    found = job_result(lanes, [reported(0.1), reported(None, False, "max_passes"), reported(0.2)])
    assert (found["converged"], found["stop_reason"]) == (False, "max_passes")
    assert found["certificate"]["gap"] is None
