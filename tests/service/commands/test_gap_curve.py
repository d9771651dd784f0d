"""The picture of how M+ - M- falls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.service.commands.gap_curve import HEIGHT, WIDTH, GapCurve, picture

LANE, OTHER = {"number": 0}, {"number": 1}


def at(gap, sweep=0, pass_=1, lane=LANE):
    return {"lane": lane, "pass": pass_, "sweep": sweep, "gap": gap}


def curve_of(*progress):
    curve = GapCurve()
    for each in progress:
        curve.note(each)
    return curve


def bars(lines):
    return [line.split("|", 1)[1] for line in lines if "|" in line]


def test_a_value_for_each_sweep():
    curve = curve_of(at(None), at(4.0, 1), at(4.0, 1), at(2.0, 2), at(1.0, 3))
    assert (curve.values, curve.unit) == ([4.0, 2.0, 1.0], "sweep")


def test_what_nobody_saw_is_as_what_was_before():
    assert curve_of(at(4.0, 1), at(1.0, 4)).values == [4.0, 4.0, 4.0, 1.0]


def test_a_sweep_may_end_with_another_figure():
    assert curve_of(at(4.0, 1), at(2.0, 2), at(1.5, 2)).values == [4.0, 1.5]


def test_sweeps_of_the_next_pass_follow():
    assert curve_of(at(4.0, 1), at(2.0, 2), at(1.0, 1, 2), at(0.5, 2, 2)).values == [4.0, 2.0, 1.0, 0.5]


def test_passes_where_there_are_no_sweeps():
    curve = curve_of(at(4.0, pass_=1), at(2.0, pass_=2))
    assert (curve.values, curve.unit) == ([4.0, 2.0], "pass")


def newton(gap, step, sweep=5, pass_=1):
    return {**at(gap, sweep, pass_), "newton": {"step": step, "scans": 2 * step + 2, "system_rows": 9, "sigma": 1.0}}


def test_newton_steps_follow_sweeps():
    """Steps are counted over all passes, sweeps within a pass."""
    before = [at(8.0, 4), {**at(4.0, 5), "newton": None}]
    curve = curve_of(*before, newton(2.0, 1), newton(2.0, 1), newton(1.0, 3), newton(0.5, 4, sweep=0, pass_=2))
    assert curve.values == [8.0, 8.0, 8.0, 8.0, 4.0, 2.0, 2.0, 1.0, 0.5]
    assert curve.caption == "sweeps: 5, Newton steps: 4"


def test_after_newton_steps_that_were_given_up_sweeps_follow():
    curve = curve_of(at(4.0, 1), newton(2.0, 1, sweep=1), newton(1.0, 1, sweep=1, pass_=2), newton(0.5, 1, 2, 2))
    assert (curve.values, curve.caption) == ([4.0, 1.0, 0.5], "sweeps: 2, Newton steps: 1")


def test_another_lane_begins_anew():
    assert curve_of(at(4.0, 1), at(2.0, 2), at(3.0, 1, lane=OTHER)).values == [3.0]


@pytest.mark.parametrize("gap", [0.0, -1.0, float("inf")])
def test_what_has_no_logarithm_is_left_out(gap):
    assert curve_of(at(1.0, 1), at(gap, 2)).values == [1.0]


def test_nothing_is_drawn_of_nothing():
    assert picture([], "sweep 1 to 0", 1e-3) == []


def test_the_picture_falls():
    assert picture([1.0, 0.1, 0.02], "sweep 1 to 3", 0.01, width=8) == [
        " M+ - M-",
        "       1 |██",
        "         |██",
        "         |██",
        "         |██",
        "     0.1 |████",
        "         |████",
        "         |████▂▂",
        "         |██████.. tolerance",
        "    0.01 +--------",
        "          sweep 1 to 3",
    ]


def test_without_unicode():
    assert "".join(picture([1.0, 0.5, 0.1], "pass 1 to 3", 0.01, blocks=False)).isascii()


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=300),
    st.none() | st.floats(1e-9, 1e3),
    st.integers(20, WIDTH),
    st.booleans(),
)
def test_bars_are_in_the_order_of_the_values(values, tolerance, width, blocks):
    lines = picture(values, "sweeps", tolerance, width, blocks)
    assert max(map(len, lines)) <= 8 + 2 + width + len(" tolerance")
    assert len(lines) <= max(HEIGHT, 12) + 3
    columns = [[row.ljust(width)[k] in "█#" for row in bars(lines)] for k in range(width)]
    full = [sum(column) for column in columns]
    wide = max(1, min(4, width // len(values)))
    drawn = values if len(values) <= width else [values[(k + 1) * len(values) // width - 1] for k in range(width)]
    heights = full[: len(drawn) * wide : wide]
    for one, of_one in zip(drawn, heights, strict=True):
        for other, of_other in zip(drawn, heights, strict=True):
            assert one < other or of_one >= of_other
    # Bars stand on the axis.
    assert all(column == sorted(column) for column in columns)
