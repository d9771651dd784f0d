"""What each file of tests costs: `python -m pytest -p tests.costs -n 0 tests/python`.

Core seconds are of this process and of those that ended meanwhile, so other work on the machine adds nothing to them.
"""

import os
import time
from collections import defaultdict

import pytest

_spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # core seconds, seconds


def _now() -> tuple[float, float]:
    return sum(os.times()[:4]), time.monotonic()


def _counted(name: str):
    before = _now()
    yield
    for place, (then, now) in enumerate(zip(before, _now(), strict=True)):
        _spent[name][place] += now - then


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Counts what collecting costs."""
    yield from _counted("collecting")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Counts a test with its fixtures."""
    yield from _counted(item.nodeid.split("::")[0])


def pytest_terminal_summary(terminalreporter):
    """Prints the files, the most expensive one first."""
    terminalreporter.section("core seconds, seconds")
    for name, (cores, seconds) in sorted(_spent.items(), key=lambda each: -each[1][0]):
        terminalreporter.write_line(f"{cores:8.1f} {seconds:8.1f}  {name}")
