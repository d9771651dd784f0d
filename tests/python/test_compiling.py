"""The first training says that kernels are compiled, to whoever watches; later ones say nothing."""

import builtins
import io
import logging

import numpy as np
import pytest

from streamsvm import StreamSVC, compiling


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def fresh(monkeypatch):
    """A machine where nothing is compiled; the bars that were shown."""
    compiling._look.cache_clear()
    shown = []
    monkeypatch.setattr(compiling, "are_compiled", lambda: False)
    monkeypatch.setattr(compiling, "compile_kernels", shown.append)
    yield shown
    compiling._look.cache_clear()


def fit(**parameters):
    X = np.arange(40.0).reshape(20, 2)
    StreamSVC(**parameters).fit(X, X[:, 0] > 20)


def test_a_terminal_a_notebook_and_verbose_see_a_bar_once(fresh, monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    fit()
    fit()
    assert len(fresh) == 1
    monkeypatch.setattr("sys.stderr", io.StringIO())
    for is_notebook in (False, True):
        compiling._look.cache_clear()
        if is_notebook:
            monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
        fit(verbose=not is_notebook)
    assert len(fresh) == 3


def test_elsewhere_it_is_logged(fresh, monkeypatch, caplog):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with caplog.at_level(logging.INFO, "streamsvm"):
        fit()
        fit()
    assert not fresh and [record.message for record in caplog.records if "compiling" in record.message] == [
        "compiling kernels, once: the first training takes a minute longer"
    ]
