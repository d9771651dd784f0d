"""Results of the papers' experiments are those of clean commits of this history, and show figures that are there."""

import re
from pathlib import Path

import pytest

from tests.bench import papers
from tests.bench.command import chosen
from tests.bench.commit import has_history, is_ancestor
from tests.bench.papers.__main__ import PAPERS
from tests.bench.papers.summary import claims, minutes, summed_up

RESULTS = (Path(papers.__file__).with_name("RESULTS.md")).read_text()
SECTIONS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", RESULTS))
FIGURES = Path(papers.__file__).with_name("figures")


def faults(section: str) -> list[str]:
    """What keeps a section of results from being believed."""
    named = re.search(r"(?m)^(?:commit (\S+)|of no commit); `", section)
    if named is None or named[1] is None:
        return ["no commit"]
    if "-" in named[1]:
        return ["a tree with changes"]
    return [] if not has_history() or is_ancestor(named[1]) else ["a commit that is not in this history"]


def test_every_experiment_has_its_results():
    assert set(SECTIONS) == set(chosen([], PAPERS))


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


def test_all_experiments_take_less_than_six_hours_and_those_of_a_paper_less_than_ninety_minutes():
    taken = minutes(RESULTS)
    assert set(taken) == set(SECTIONS)
    papers_minutes: dict[str, int] = {}
    for name, each in taken.items():
        papers_minutes[name.split()[0]] = papers_minutes.get(name.split()[0], 0) + each
    assert sum(taken.values()) < 6 * 60
    assert all(each < 90 for each in papers_minutes.values())
