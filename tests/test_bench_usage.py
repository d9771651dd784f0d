"""Seconds and core seconds: of processes that live, that have ended, and that were left behind."""

import subprocess
import sys

import pytest

from tests.bench.commands import launch
from tests.bench.usage import Spent, Stopwatch, core_seconds_below, median_spent

# Computes for so many core seconds, then says so and waits for a line.
_COMPUTE = """
import sys, time
while time.process_time() < float(sys.argv[1]):
    pass
print(flush=True)
sys.stdin.readline()
"""
# Leaves such a process behind.
_LEAVE = """
import subprocess, sys
subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL, start_new_session=True)
"""
_SECONDS = 0.4


def test_spent_adds_up_and_what_is_unknown_stays_so():
    assert Spent(1.0, 2.0) + Spent(3.0, 4.0) == Spent(4.0, 6.0)
    assert Spent(3.0, 4.0) - Spent(1.0) == Spent(2.0, None)
    assert Spent(1.0).busy is None


def test_the_median_counts_none_as_never():
    assert median_spent([Spent(3.0, 1.0), None, Spent(2.0, 5.0)]) == Spent(3.0, 5.0)
    assert median_spent([Spent(3.0), Spent(2.0, 5.0), Spent(1.0, 1.0)]) == Spent(2.0, None)
    assert median_spent([Spent(1.0), None]) is None
    assert median_spent([]) is None


def test_laps_of_a_stopwatch():
    ticks = iter([1.0, 3.0, 6.0, 10.0])
    watch = Stopwatch(lambda: 7.0, lambda: next(ticks))
    assert [watch.lap(), watch.lap(), watch.total()] == [Spent(2.0, 0.0), Spent(3.0, 0.0), Spent(9.0, 0.0)]


def test_core_seconds_of_a_process_that_lives_and_once_it_has_ended():
    before = core_seconds_below()
    command = [sys.executable, "-c", _COMPUTE, str(_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert core_seconds_below() - before > 0.9 * _SECONDS
        child.communicate(b"\n")
    assert core_seconds_below() - before > 0.9 * _SECONDS


def test_what_a_command_leaves_behind_is_counted():
    ended = launch([sys.executable, "-c", _LEAVE, "-c", _COMPUTE, _SECONDS])
    assert ended.code == 0
    assert ended.spent.core_seconds > 0.9 * _SECONDS


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_tells_its_exit_code_and_what_it_printed(code):
    ended = launch([sys.executable, "-c", f"print('x' * 3); raise SystemExit({code})"])
    assert (ended.code, ended.printed) == (code, b"xxx\n")
    assert ended.spent.seconds > 0
