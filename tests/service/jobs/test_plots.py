"""Pictures of jobs: of one lane, of lanes one after the other, of lanes side by side, and of a cross-validation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.plots import chosen_lanes, draw, lane_curves, lane_names, plot_job, running_lanes

SPEC = {"dataset": "data", "C": 1.0, "tolerance": 1e-3, "relative_gap": None, "scoring": "accuracy"}
CV = [
    {"C": C, "folds": [{}] * 3, "mean": {"accuracy": mean, "auc": None}, "std": {"accuracy": 0.1, "auc": None}}
    for C, mean in ((0.1, 0.7), (1.0, 0.9), (10.0, 0.8))
]


def job(state="succeeded", result=None, **spec):
    return {"spec": {**SPEC, **spec}, "state": state, "result": result}


def record(number, seconds, gap, lane=0, **more):
    bound = gap and gap / 10
    line = {"pass": number, "elapsed_seconds": seconds, "gap": gap, "relative_gap_bound": bound, "lane": lane}
    return {**line, **more}


def in_turn(n_lanes):
    """Two passes a lane, one lane after the other."""
    return [record(2 * k + p + 1, 2.0 * k + p, 1.0 / (k + 1) / (p + 1), k) for k in range(n_lanes) for p in range(2)]


def side_by_side(n_lanes, first):
    """The same lanes as a group whose lines are of all of them; `first` is what they say of one."""
    lanes = [[{"lane": k, "gap": 1.0 / (k + 1) / (p + 1)} for k in range(n_lanes)] for p in range(2)]
    return [record(p + 1, float(p), 1.0, first, lanes=lanes[p]) for p in range(2)]


def lines(axes):
    return {line.get_label(): np.array(line.get_xydata()) for line in axes.get_lines()}


def test_one_lane_is_drawn_over_seconds():
    passes = [record(1, 0.5, 0.1), record(2, 1.0, 0.0), record(3, 1.5, None)]
    (axes,) = plot_job(job(), passes).axes
    found = lines(axes)
    np.testing.assert_equal(found["M+ - M-"], [(0.5, 0.1), (1.0, math.nan), (1.5, math.nan)])
    np.testing.assert_equal(found["relative gap, at most"], [(0.5, 0.01), (1.0, math.nan), (1.5, math.nan)])
    assert list(found) == ["M+ - M-", "relative gap, at most", "tolerance 0.001"]
    assert axes.get_yscale() == "log" and axes.get_title() == "data, C = 1: succeeded"


def sweep(number, seconds, gap, **more):
    return {"sweep": number, "elapsed_seconds": seconds, "gap": gap, "relative_gap_bound": gap and gap / 10, **more}


def test_sweeps_are_points_of_the_curve_and_the_certificate_is_its_end():
    passes = [record(1, 3.0, 0.1, sweeps=[sweep(1, 1.0, 0.8), sweep(2, 2.0, 0.4)])]
    certificate = {"gap": 0.05, "relative_duality_gap": 1e-4}
    (axes,) = plot_job(job(result={"certificate": certificate}), passes).axes
    found = lines(axes)
    np.testing.assert_equal(found["M+ - M-"], [(1.0, 0.8), (2.0, 0.4), (3.0, 0.05)])
    np.testing.assert_equal(found["relative gap, at most"], [(1.0, 0.08), (2.0, 0.04), (3.0, 1e-4)])


def test_sweeps_of_lanes_side_by_side_are_points_of_each():
    lanes = [{"lane": k, "gap": 1.0 + k, "relative_gap_bound": 0.1} for k in range(2)]
    passes = [{**side_by_side(2, None)[1], "sweeps": [sweep(1, 0.5, 2.0, lanes=lanes)]}]
    assert lane_curves(passes) == {0: [(0.5, 1.0), (1.0, 0.5)], 1: [(0.5, 2.0), (1.0, 0.25)]}


def step(number, seconds, gap, **more):
    own = {"step": number, "scans": 2 * number + 2, "system_rows": 9, "sigma": 1.0}
    return {**own, "elapsed_seconds": seconds, "gap": gap, "relative_gap_bound": gap / 10, **more}


def test_newton_steps_are_points_of_the_curve_with_a_mark_of_their_own():
    sweeps, steps = [sweep(1, 1.0, 0.8)], [step(1, 2.0, 0.4), step(2, 2.5, 0.2)]
    (axes,) = plot_job(job(), [record(1, 3.0, 0.1, sweeps=sweeps, newton=steps)]).axes
    found = lines(axes)
    np.testing.assert_equal(found["M+ - M-"], [(1.0, 0.8), (2.0, 0.4), (2.5, 0.2), (3.0, 0.1)])
    np.testing.assert_allclose(found["Newton step"], [(2.0, 0.4), (2.5, 0.2), (2.0, 0.04), (2.5, 0.02)])
    marks = {line.get_label(): (line.get_linestyle(), line.get_marker()) for line in axes.get_lines()}
    assert marks["Newton step"][0] == "None" and marks["Newton step"] != marks["M+ - M-"]


def test_newton_steps_are_marked_on_the_lanes_that_take_part():
    of_lanes = [{"lane": k, "gap": 1.0 + k, "system_rows": 9 if k else None, "sigma": None} for k in range(2)]
    passes = [{**side_by_side(2, None)[1], "newton": [step(1, 0.5, 2.0, lanes=of_lanes)]}]
    assert lane_curves(passes, of_steps=True) == {1: [(0.5, 2.0)]}
    assert lane_curves(passes) == {0: [(0.5, 1.0), (1.0, 0.5)], 1: [(0.5, 2.0), (1.0, 0.25)]}
    (axes,) = plot_job(job("running"), passes).axes
    np.testing.assert_equal(lines(axes)["Newton step"], [(0.5, 2.0)])


def test_of_many_lanes_all_are_drawn_and_eight_at_most_have_a_name():
    (axes,) = plot_job(job("running"), side_by_side(40, None)).axes
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(axes.get_lines()) == 41 and len(named) == 9 and named[-1] == "tolerance 0.001"
    assert max(line.get_linewidth() for line in axes.get_lines() if line.get_label() == "_other") < 1


def test_long_curves_have_no_dots():
    for count, marker in ((30, "."), (31, "")):
        sweeps = [sweep(k, float(k), 1.0 / k) for k in range(1, count)]
        (axes,) = plot_job(job(), [record(1, count + 1.0, 1e-3, sweeps=sweeps)]).axes
        assert axes.get_lines()[0].get_marker() == marker


def test_an_old_line_without_a_lane_is_of_the_first():
    passes = [{**record(1, 0.5, 0.1)}]
    del passes[0]["lane"]
    assert lane_curves(passes) == {0: [(0.5, 0.1)]}


@pytest.mark.parametrize("first", [0, None])
def test_lanes_are_drawn_over_seconds_in_turn_or_side_by_side(first):
    lanes = [{"class": name, "fold": None, "C": 1.0} for name in ("spam", "ham")]
    for passes, expected in (
        (in_turn(2), [[(0, 1.0), (1, 0.5)], [(2, 0.5), (3, 0.25)]]),
        (side_by_side(2, first), [[(0, 1.0), (1, 0.5)], [(0, 0.5), (1, 0.25)]]),
    ):
        (axes,) = plot_job(job(result={"lanes": lanes}, C=[0.5, 1.0]), passes).axes
        found = lines(axes)
        assert list(found) == ["spam", "ham", "tolerance 0.001"]
        np.testing.assert_equal([found["spam"], found["ham"]], expected)
        assert axes.get_title() == "data, C = 0.5 to 1: succeeded"


def test_of_a_running_job_lanes_have_numbers():
    (axes,) = plot_job(job("running"), in_turn(2)).axes
    assert list(lines(axes))[:2] == ["lane 1", "lane 2"]


def test_without_gaps_there_are_bounds():
    passes = [{**each, "gap": None, "relative_gap_bound": 0.5} for each in in_turn(2)]
    assert lane_curves(passes) == {0: [(0.0, 0.5), (1.0, 0.5)], 1: [(2.0, 0.5), (3.0, 0.5)]}
    (axes,) = plot_job(job(relative_gap=0.01), passes).axes
    assert axes.get_ylabel() == "relative gap, at most" and "relative_gap 0.01" in lines(axes)


def test_of_many_lanes_the_worst_the_best_and_those_that_run_have_names():
    found = chosen_lanes(lane_curves(in_turn(200)), {5})
    assert found == {0: "worst", 1: "worst", 2: "worst", 5: "runs", 199: "best"}
    # If all run, those of them that are worst.
    found = chosen_lanes(lane_curves(side_by_side(200, None)), set(range(200)))
    assert list(found) == [*range(7), 199] and found[6] == "runs"


def test_a_lane_is_ranked_by_the_last_that_is_known_of_it():
    curves = lane_curves(in_turn(20))
    found = chosen_lanes({**curves, 0: [*curves[0], (90.0, math.nan)]}, set())
    assert found == {0: "worst", 1: "worst", 2: "worst", 19: "best"}


@given(st.lists(st.one_of(st.floats(1e-9, 1e9), st.just(math.nan)), min_size=1, max_size=40), st.data())
def test_few_have_names_and_never_none_that_is_unknown(gaps, data):
    curves = {lane: [(0.0, gap)] for lane, gap in enumerate(gaps)}
    running = data.draw(st.sets(st.sampled_from(sorted(curves))))
    found = chosen_lanes(curves, running)
    assert len(found) <= 8 and list(found) == sorted(found)
    if len(gaps) <= 8:
        assert found == dict.fromkeys(curves, "")
        return
    known = {lane: gap for lane, gap in enumerate(gaps) if gap == gap}
    assert found.keys() <= known.keys()
    if known:
        assert {max(known.values()), min(known.values())} <= {known[lane] for lane in found}
    assert {lane for lane, why in found.items() if why == "runs"} <= running


def test_what_has_ended_does_not_run():
    passes = side_by_side(3, None)
    assert running_lanes(job("running"), passes) == {0, 1, 2} and running_lanes(job("stopped"), passes) == set()


def test_names_say_what_tells_lanes_apart():
    lanes = [{"class": 1.0, "fold": fold, "C": C} for fold in (0, None) for C in (0.1, 10.0)]
    assert lane_names(lanes) == ["fold 0, C = 0.1", "fold 0, C = 10", "all rows, C = 0.1", "all rows, C = 10"]


def test_a_cross_validation_has_a_panel_with_the_metric_asked_for(tmp_path):
    ended = job(result={"cv": CV, "selected_C": 1.0, "lanes": []})
    axes = plot_job(ended, in_turn(2)).axes[1]
    found = lines(axes)
    np.testing.assert_equal(found["accuracy, mean of 3 folds"], [(0.1, 0.7), (1.0, 0.9), (10.0, 0.8)])
    assert found["selected: C = 1"][:, 0].tolist() == [1.0, 1.0] and axes.get_xscale() == "log"
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((0.6, 1.0))
    draw(ended, in_turn(2), tmp_path / "job.svg", "accuracy")
    assert b"<svg" in (tmp_path / "job.svg").read_bytes()


@pytest.mark.parametrize(("cv", "metric", "says"), [(CV, "auc", "It has accuracy."), ((), "f1", "Leave --metric out.")])
def test_a_metric_that_there_is_not(cv, metric, says):
    with pytest.raises(ServiceError) as caught:
        plot_job(job(result={"cv": cv, "selected_C": 1.0}), in_turn(2), metric)
    assert (caught.value.code, caught.value.hint) == ("no_such_metric", says)
