"""The head of the page of results: every claim and its verdict, taken from the sections."""

from __future__ import annotations

import re

from tests.bench.papers.verdict import WORDS
from tests.bench.report import header, row

_HEADING = "Claims and verdicts, from the sections below:"
_SECTION = re.compile(r"(?ms)^## (?P<name>.+?)\n(?P<text>.*?)(?=^## |\Z)")
_CLAIM = re.compile(rf"\*\*Claim\*\*: (?P<claim>[^*]+?)\n\n\*\*(?P<word>{'|'.join(WORDS)})\*\*(?P<n> \([^)]+\))?\.")
_TIME = re.compile(r"It took (\d+) minutes\.")


def claims(results: str) -> list[tuple[str, str, str]]:
    """(experiment, claim, verdict) in the order of the page."""
    return [
        (section["name"], " ".join(found["claim"].split()).rstrip("."), found["word"] + (found["n"] or ""))
        for section in _SECTION.finditer(results)
        for found in _CLAIM.finditer(section["text"])
    ]


def minutes(results: str) -> dict[str, int]:
    """Minutes that each experiment took."""
    found = {section["name"]: _TIME.findall(section["text"]) for section in _SECTION.finditer(results)}
    return {name: int(times[-1]) for name, times in found.items() if times}


def summed_up(results: str) -> str:
    """The page with a table of its claims and verdicts before the first section, in place of the one it had."""
    head, first, sections = results.partition("\n## ")
    head = head.partition(_HEADING)[0].rstrip("\n")
    table = [*header("experiment", "claim", "verdict", words=3), *(row(*each) for each in claims(results))]
    return "\n".join([head, "", _HEADING, "", *table, ""]) + first + sections
