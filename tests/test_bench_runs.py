"""What benches say of a run: memory, seconds, core seconds; results of the papers are of clean commits."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import papers, small_memory
from tests.bench.command import chosen
from tests.bench.commands import Ended, launch
from tests.bench.commit import has_history, is_ancestor
from tests.bench.papers.__main__ import PAPERS
from tests.bench.papers.summary import claims, minutes, summed_up
from tests.bench.usage import Spent, core_seconds_below, median_spent
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

RESULTS = (Path(papers.__file__).with_name("RESULTS.md")).read_text()
SECTIONS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", RESULTS))
FIGURES = Path(papers.__file__).with_name("figures")
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
_HOARD = "print('begun', flush=True); hoard = bytearray(200 << 20); hoard[::4096] = bytes(len(hoard) // 4096)"


def ended(code: int, **certificate: float) -> Ended:
    result = {"result": {"converged": code == 0, "certificate": certificate}}
    return Ended(code, Spent(1.0), json.dumps(result).encode() if certificate else b"")


def test_outcomes_of_a_run_in_a_group():
    assert small_memory.outcome(ended(0, relative_duality_gap=5e-4), 0) == "certified to 5.0e-04"
    not_converged = ended(small_memory.NOT_CONVERGED, relative_duality_gap=5e-3)
    assert small_memory.outcome(not_converged, 0) == "ended at 5.0e-03"
    assert small_memory.outcome(ended(0), 0) == "trained"
    assert small_memory.outcome(ended(-9), 1) == "killed by the group"
    assert small_memory.outcome(ended(1), 0) == "failed with exit code 1"


@pytest.mark.skipif(reason_unusable() is not None, reason=str(reason_unusable()))
@pytest.mark.parametrize(("limit", "words"), [(64 << 20, "killed by the group"), (400 << 20, None)])
def test_what_a_command_holds_is_charged_to_its_group(limit, words):
    group = MemoryGroup("bench", limit)
    try:
        done = launch(["python3", "-c", _HOARD], group=group.path)
        assert done.printed == b"begun\n"
        assert (small_memory.outcome(done, group.oom_kills) if done.code else None) == words
        assert group.peak > 0.9 * min(limit, 200 << 20)
    finally:
        group.remove()


def test_the_median_of_unknown_core_seconds_is_unknown():
    assert median_spent([Spent(3.0, 1.0), Spent(2.0, 5.0), Spent(1.0, 2.0)]) == Spent(2.0, 2.0)
    assert median_spent([Spent(3.0), Spent(2.0, 5.0), Spent(1.0, 1.0)]) == Spent(2.0, None)


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


def faults(section: str) -> list[str]:
    """What keeps a section of results from being believed."""
    named = re.search(r"(?m)^(?:commit (\S+)|of no commit); `", section)
    if named is None or named[1] is None:
        return ["no commit"]
    if "-" in named[1]:
        return ["a tree with changes"]
    return [] if not has_history() or is_ancestor(named[1]) else ["a commit that is not in this history"]


def test_every_experiment_has_its_results_or_is_said_to_lack_them():
    head = RESULTS.partition("\n## ")[0]
    lacking = set(chosen([], PAPERS)) - set(SECTIONS)
    assert lacking == set(re.findall(r"`([a-z ]+)` has not been run in full", head))


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_of_a_clean_commit_and_of_an_experiment_that_there_is(name):
    assert faults(SECTIONS[name]) == []
    assert name in chosen([], PAPERS)


def test_all_sections_are_of_one_commit():
    assert len(set(re.findall(r"(?m)^commit (\S+); `", RESULTS))) == 1


def test_results_of_other_trees_are_refused():
    text = "2 cores;\n{}; `python -m tests.bench.papers avsf`.\n"
    assert faults(text.format("commit 0123456-dirty")) == ["a tree with changes"]
    assert faults(text.format("of no commit")) == ["no commit"]
    assert faults("nothing") == ["no commit"]
    if has_history():
        assert faults(text.format("commit 0123456")) == ["a commit that is not in this history"]


def test_every_figure_belongs_to_a_section():
    shown = set(re.findall(r"\(figures/(.+?)\.png\)", RESULTS))
    assert shown == {path.stem for path in FIGURES.glob("*.png")}


def test_the_head_sums_up_the_claims_of_all_sections():
    assert summed_up(RESULTS) == RESULTS
    assert {name for name, _, _ in claims(RESULTS)} == set(SECTIONS)


def test_a_claim_and_its_verdict_are_found_however_their_lines_are_broken():
    first = "**Claim**: one two\nthree.\n\n**In part**. Holds: a (1)."
    page = f"# Page\n\n## bm methods\n\n{first}\n\n**Claim**: four.\n\n**Undecided**. a\n\n## x\n"
    assert claims(page) == [("bm methods", "one two three", "In part"), ("bm methods", "four", "Undecided")]
    once = summed_up(page)
    assert "| bm methods | four | Undecided |\n\n## bm methods" in once and summed_up(once) == once


def test_all_experiments_take_eight_hours_at_most_those_of_streamsvm_four_and_of_other_papers_ninety_minutes():
    taken = minutes(RESULTS)
    assert set(taken) == set(SECTIONS)
    papers_minutes: dict[str, int] = {}
    for name, each in taken.items():
        papers_minutes[name.split()[0]] = papers_minutes.get(name.split()[0], 0) + each
    assert sum(taken.values()) <= 8 * 60
    assert all(each <= (240 if paper == "streamsvm" else 90) for paper, each in papers_minutes.items())
