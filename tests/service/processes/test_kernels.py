"""Compiling ahead: what the bar shows, and a half that fails. That each is compiled once: end_to_end/test_demo.py."""

import io

import pytest

from service.errors import ServiceError
from service.processes import kernels


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_every_step_is_reported():
    seen = []
    kernels.compile_kernels(lambda done, every: seen.append((done, every)))
    every = sum(kernels.STEPS.values())
    assert seen == [(done, every) for done in range(every + 1)]


def test_a_half_that_fails(monkeypatch):
    monkeypatch.setattr(kernels, "HALVES", {"nothing": None})
    with pytest.raises(ServiceError) as caught:
        kernels.compile_kernels(lambda *_: None)
    assert caught.value.code == "process_died"


def test_the_bar_fills_and_goes():
    stream = Terminal()
    report = kernels.show_bar(stream)
    report(0, 4)
    report(2, 4)
    assert stream.getvalue().rsplit("\r\033[K", 1)[1] == f"compiling kernels, once  [{'#' * 15}{'.' * 15}] 2/4"
    report(4, 4)
    assert stream.getvalue().endswith("\r\033[K")


def test_elsewhere_it_is_a_line():
    stream = io.StringIO()
    report = kernels.show_bar(stream)
    for done in range(5):
        report(done, 4)
    assert stream.getvalue() == "compiling kernels, once\n"
