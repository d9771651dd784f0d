"""The display of training on a terminal and in a file, and its picture of how M+ - M- falls."""

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.service.terminal.display import (
    HEIGHT,
    WIDTH,
    Display,
    GapCurve,
    JsonPrinter,
    TerminalPicture,
    display,
    made,
    picture,
    progress_line,
)

LANE, OTHER = {"number": 0}, {"number": 1}
RESULT = {
    "converged": True, "stop_reason": "tolerance", "passes": 1,
    "certificate": {"gap": 1e-4, "primal_objective": 2.0, "relative_duality_gap": 1e-6},
}  # fmt: skip


def progress(sweep, gap):
    return {
        "lane": {"number": 0}, "pass": 1, "sweep": sweep, "block": 3, "blocks": 3, "gap": gap, "dual_objective": 1.0,
        "elapsed_seconds": 1.0, "rows_streamed": 10, "eta_seconds": None, "relative_gap_bound": None,
    }  # fmt: skip


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def screen(text):
    """The lines on a terminal at the end."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\d*[A-Z]|\r|\n|[^\x1b\r\n]+", text):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row -= int(piece[2:-1])
            assert row >= 0
        elif piece == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        elif piece == "\x1b[K":
            lines[row] = lines[row][:column]
        else:
            assert not piece.startswith("\x1b")
            lines[row] = lines[row][:column] + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return lines


@pytest.fixture
def open_terminal(monkeypatch):
    """A function, because pytest replaces standard error in each phase of a test."""

    def open_():
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    return open_


def test_who_shows_it(open_terminal, monkeypatch):
    open_terminal()
    assert type(display(False, 1e-3)) is TerminalPicture
    assert type(display(True, 1e-3)) is JsonPrinter
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(display(False, 1e-3)) is Display


def test_the_picture_is_written_over(open_terminal):
    terminal = open_terminal()
    show = TerminalPicture(1e-3)
    show.say("reading")
    for sweep, gap in enumerate((10.0, 1.0, 0.1), start=1):
        show.show_progress(progress(sweep, gap))
    lines = screen(terminal.getvalue())
    assert lines[:2] == ["reading", " M+ - M-"]
    assert lines[-2:] == ["          sweep 1 to 3", lines[-1]]
    assert lines[-1].startswith("pass 1 sweep 3  M+ - M- 0.1 of 0.001")
    assert sum("|" in line for line in lines) == 8


def test_the_line_says_the_newton_step():
    newton = {"step": 12, "scans": 26, "system_rows": 311, "sigma": 5.0}
    line = progress_line({**progress(5, 0.1), "solver_phase": "newton", "newton": newton}, None)
    assert line.startswith("pass 1 Newton step 12 (26 scans)  M+ - M- 0.1")
    # Before the first step of a run, or after the phase was given up, it says the sweep.
    for phase, step in (("newton", None), ("sweep", newton)):
        line = progress_line({**progress(5, 0.1), "solver_phase": phase, "newton": step}, None)
        assert line.startswith("pass 1 sweep 5")


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, "1 pass"),
        ({"sweeps": 1, "newton_steps": 0, "scans": 0}, "1 pass, 1 sweep"),
        ({"sweeps": 5, "newton_steps": 12, "scans": 26}, "1 pass, 5 sweeps, 12 Newton steps in 26 scans"),
    ],
)
def test_how_much_work_there_was(counts, text):
    assert made({**RESULT, **counts}) == text


def test_it_stays_when_all_is_done(open_terminal):
    terminal = open_terminal()
    show = TerminalPicture(1e-3)
    show.show_progress(progress(1, 10.0))
    show.show_progress(progress(2, 0.1))
    show.finish(RESULT, "my.model")
    lines = screen(terminal.getvalue())
    assert lines[0] == " M+ - M-"
    assert lines[-4:-1] == ["          sweep 1 to 2", lines[-3], "wrote my.model"]
    assert lines[-3].startswith("converged (tolerance) after 1 pass:")


@pytest.mark.parametrize(("name", "size"), [("COLUMNS", "30"), ("LINES", "10")])
def test_a_small_terminal_has_the_line_alone(open_terminal, monkeypatch, name, size):
    monkeypatch.setenv(name, size)
    terminal = open_terminal()
    show = TerminalPicture(1e-3)
    show.show_progress(progress(1, 10.0))
    show.show_progress(progress(2, 1.0))
    (line,) = screen(terminal.getvalue())
    assert line.startswith("pass 1 sweep 2")
    assert len(line) < int(size) or name == "LINES"


def test_elsewhere_lines_are_plain(capsys):
    show = display(False, 1e-3)
    show.show_progress(progress(1, 10.0))
    show.finish(RESULT, "my.model")
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    assert said.isprintable() or set(said) & set("\r\x1b") == set()


def test_the_best_C_so_far_is_told_when_it_changes(capsys, open_terminal):
    show = display(False, 1e-3)
    for best in ({}, {"best_C": None}, *({"best_C": C, "best_score": C / 10} for C in (1.0, 1.0, 4.0))):
        show.show_progress({**progress(1, 10.0), **best})
    assert capsys.readouterr().err.splitlines() == ["best so far C = 1: 0.1", "best so far C = 4: 0.4"]
    assert "  best so far C = 4: 0.4" in progress_line({**progress(1, 10.0), "best_C": 4.0, "best_score": 0.4}, None)


def at(gap, sweep=0, pass_=1, lane=LANE):
    return {"lane": lane, "pass": pass_, "sweep": sweep, "gap": gap}


def curve_of(*progress):
    curve = GapCurve()
    for each in progress:
        curve.note(each)
    return curve


def bars(lines):
    return [line.split("|", 1)[1] for line in lines if "|" in line]


@pytest.mark.parametrize(("best", "is_last"), [(0.5, False), (2.0, True)])
def test_of_several_C_all_figures_are_those_of_the_best(capsys, best, is_last):
    shown = Display(None)
    shown.most_frequent = 0.75
    figures = [
        {"mean": {"accuracy": 0.5 + C / 10, "f1": 0.25}, "std": {"accuracy": 0.125, "f1": 0.5}} for C in (0.5, 2)
    ]
    tried = [{"C": C, "folds": [{}] * 3, **each} for C, each in zip((0.5, 2.0), figures, strict=True)]
    shown.show_folds({"cv": tried, "selected_C": best}, "accuracy")
    said = capsys.readouterr().err.splitlines()
    (selected,) = (line for line in said if "selected" in line)
    assert [line.split(": ")[0] for line in said[:2]] == ["C = 0.5", "C = 2"]
    assert sum("f1" in line for line in said) == 1 and "f1 0.25 +- 0.5" in selected
    assert selected.startswith(f"C = {best:g}") and selected.endswith("frequent class gives 0.75")
    assert any("no larger C" in line for line in said) == is_last


@pytest.mark.parametrize(
    ("seen", "values", "unit"),
    [
        pytest.param([at(None), at(4.0, 1), at(4.0, 1), at(2.0, 2), at(1.0, 3)], [4.0, 2.0, 1.0], "sweep", id="each"),
        pytest.param([at(4.0, 1), at(1.0, 4)], [4.0, 4.0, 4.0, 1.0], "sweep", id="some not seen"),
        pytest.param([at(4.0, 1), at(2.0, 2), at(1.5, 2)], [4.0, 1.5], "sweep", id="another figure"),
        pytest.param(
            [at(4.0, 1), at(2.0, 2), at(1.0, 1, 2), at(0.5, 2, 2)], [4.0, 2.0, 1.0, 0.5], "sweep", id="passes"
        ),
        pytest.param([at(4.0, pass_=1), at(2.0, pass_=2)], [4.0, 2.0], "pass", id="no sweeps"),
        pytest.param([at(4.0, 1), at(2.0, 2), at(3.0, 1, lane=OTHER)], [3.0], "sweep", id="another lane"),
        *(pytest.param([at(1.0, 1), at(gap, 2)], [1.0], "sweep", id=f"{gap}") for gap in (0.0, -1.0, float("inf"))),
    ],
)
def test_the_curve_has_a_value_for_each_sweep_or_pass(seen, values, unit):
    curve = curve_of(*seen)
    assert (curve.values, curve.unit) == (values, unit)


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


def test_the_picture_falls():
    assert picture([], "sweep 1 to 0", 1e-3) == []
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


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=300),
    st.none() | st.floats(1e-9, 1e3),
    st.integers(20, WIDTH),
    st.booleans(),
)
def test_bars_are_in_the_order_of_the_values(values, tolerance, width, blocks):
    lines = picture(values, "sweeps", tolerance, width, blocks)
    assert blocks or "".join(lines).isascii()
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
