"""Pictures of training: of one lane, of lanes one after the other, and of lanes side by side."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from streamsvm.results import plot_history
from streamsvm.service.jobs.progress.plots import chosen_lanes, lane_curves


def drawn(passes, tolerance=1e-3, relative_gap=None):
    """The axes of a picture of these passes."""
    return plot_history(passes, tolerance, relative_gap, Figure().subplots())


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
    axes = drawn([record(1, 0.5, 0.1), record(2, 1.0, 0.0), record(3, 1.5, None)])
    found = lines(axes)
    np.testing.assert_equal(found["M+ - M-"], [(0.5, 0.1), (1.0, math.nan), (1.5, math.nan)])
    assert list(found) == ["M+ - M-", "tolerance"] and axes.get_yscale() == "log"


def sweep(number, seconds, gap, **more):
    return {"sweep": number, "elapsed_seconds": seconds, "gap": gap, "relative_gap_bound": gap and gap / 10, **more}


def test_sweeps_are_points_of_the_curve():
    passes = [record(1, 3.0, 0.1, sweeps=[sweep(1, 1.0, 0.8), sweep(2, 2.0, 0.4)])]
    np.testing.assert_equal(lines(drawn(passes))["M+ - M-"], [(1.0, 0.8), (2.0, 0.4), (3.0, 0.1)])


def test_sweeps_of_lanes_side_by_side_are_points_of_each():
    lanes = [{"lane": k, "gap": 1.0 + k, "relative_gap_bound": 0.1} for k in range(2)]
    passes = [{**side_by_side(2, None)[1], "sweeps": [sweep(1, 0.5, 2.0, lanes=lanes)]}]
    assert lane_curves(passes) == {0: [(0.5, 1.0), (1.0, 0.5)], 1: [(0.5, 2.0), (1.0, 0.25)]}


def step(number, seconds, gap, **more):
    own = {"step": number, "scans": 2 * number + 2, "system_rows": 9, "sigma": 1.0}
    return {**own, "elapsed_seconds": seconds, "gap": gap, "relative_gap_bound": gap / 10, **more}


def test_newton_steps_are_points_of_the_curve_with_a_mark_of_their_own():
    sweeps, steps = [sweep(1, 1.0, 0.8)], [step(1, 2.0, 0.4), step(2, 2.5, 0.2)]
    axes = drawn([record(1, 3.0, 0.1, sweeps=sweeps, newton=steps)])
    found = lines(axes)
    np.testing.assert_equal(found["M+ - M-"], [(1.0, 0.8), (2.0, 0.4), (2.5, 0.2), (3.0, 0.1)])
    np.testing.assert_equal(found["Newton step"], [(2.0, 0.4), (2.5, 0.2)])
    marks = {line.get_label(): (line.get_linestyle(), line.get_marker()) for line in axes.get_lines()}
    assert marks["Newton step"][0] == "None" and marks["Newton step"] != marks["M+ - M-"]


def test_newton_steps_are_marked_on_the_lanes_that_take_part():
    of_lanes = [{"lane": k, "gap": 1.0 + k, "system_rows": 9 if k else None, "sigma": None} for k in range(2)]
    passes = [{**side_by_side(2, None)[1], "newton": [step(1, 0.5, 2.0, lanes=of_lanes)]}]
    assert lane_curves(passes, of_steps=True) == {1: [(0.5, 2.0)]}
    assert lane_curves(passes) == {0: [(0.5, 1.0), (1.0, 0.5)], 1: [(0.5, 2.0), (1.0, 0.25)]}
    np.testing.assert_equal(lines(drawn(passes))["Newton step"], [(0.5, 2.0)])


def test_of_many_lanes_all_are_drawn_and_eight_at_most_have_a_name():
    axes = drawn(side_by_side(40, None))
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(axes.get_lines()) == 41 and len(named) == 5 and named[-1] == "tolerance"
    assert max(line.get_linewidth() for line in axes.get_lines() if line.get_label() == "_other") < 1


def test_long_curves_have_no_dots():
    for count, marker in ((30, "."), (31, "")):
        sweeps = [sweep(k, float(k), 1.0 / k) for k in range(1, count)]
        axes = drawn([record(1, count + 1.0, 1e-3, sweeps=sweeps)])
        assert axes.get_lines()[0].get_marker() == marker


def test_an_old_line_without_a_lane_is_of_the_first():
    passes = [{**record(1, 0.5, 0.1)}]
    del passes[0]["lane"]
    assert lane_curves(passes) == {0: [(0.5, 0.1)]}


@pytest.mark.parametrize("first", [0, None])
def test_lanes_are_drawn_over_seconds_in_turn_or_side_by_side(first):
    for passes, expected in (
        (in_turn(2), [[(0, 1.0), (1, 0.5)], [(2, 0.5), (3, 0.25)]]),
        (side_by_side(2, first), [[(0, 1.0), (1, 0.5)], [(0, 0.5), (1, 0.25)]]),
    ):
        found = lines(drawn(passes))
        assert list(found) == ["problem 1", "problem 2", "tolerance"]
        np.testing.assert_equal([found["problem 1"], found["problem 2"]], expected)


def test_without_gaps_there_are_bounds():
    passes = [{**each, "gap": None, "relative_gap_bound": 0.5} for each in in_turn(2)]
    assert lane_curves(passes) == {0: [(0.0, 0.5), (1.0, 0.5)], 1: [(2.0, 0.5), (3.0, 0.5)]}
    axes = drawn(passes, relative_gap=0.01)
    assert axes.get_ylabel() == "relative gap, at most" and "relative gap wanted" in lines(axes)


def test_of_many_lanes_the_worst_and_the_best_have_names():
    assert chosen_lanes(lane_curves(in_turn(200))) == {0: "worst", 1: "worst", 2: "worst", 199: "best"}


def test_a_lane_is_ranked_by_the_last_that_is_known_of_it():
    curves = lane_curves(in_turn(20))
    found = chosen_lanes({**curves, 0: [*curves[0], (90.0, math.nan)]})
    assert found == {0: "worst", 1: "worst", 2: "worst", 19: "best"}


@given(st.lists(st.one_of(st.floats(1e-9, 1e9), st.just(math.nan)), min_size=1, max_size=40))
def test_few_have_names_and_never_none_that_is_unknown(gaps):
    curves = {lane: [(0.0, gap)] for lane, gap in enumerate(gaps)}
    found = chosen_lanes(curves)
    assert len(found) <= 8 and list(found) == sorted(found)
    if len(gaps) <= 8:
        assert found == dict.fromkeys(curves, "")
        return
    known = {lane: gap for lane, gap in enumerate(gaps) if gap == gap}
    assert found.keys() <= known.keys()
    if known:
        assert {max(known.values()), min(known.values())} <= {known[lane] for lane in found}
