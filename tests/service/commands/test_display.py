"""The display of training on a terminal and in a file."""

import io
import re
import sys

import pytest

from streamsvm.service.commands.display import (
    Display,
    JsonLines,
    Picture,
    TerminalPicture,
    display,
    made,
    progress_line,
)

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
    assert type(display(True, 1e-3)) is JsonLines
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


def test_the_picture_in_the_end_only(capsys):
    show = Picture(1e-3)
    show.show_progress(progress(1, 10.0))
    assert capsys.readouterr().err == ""
    show.finish(RESULT, None)
    assert "tolerance" in capsys.readouterr().err
