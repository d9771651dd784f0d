"""A verdict on a claim, computed from the cases that a table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench.report import prose

UNDECIDED, ALL, SOME, NONE = WORDS = ("Undecided", "Reproduced", "In part", "Not reproduced")


@dataclass(frozen=True)
class Case:
    """A line of a table: where it is measured, whether the claim holds there (None: undecided), and its figures."""

    where: str
    holds: bool | None
    figures: str

    def __str__(self) -> str:
        return f"{self.where} ({self.figures})"


def word(cases: Sequence[Case]) -> str:
    """The verdict in a word or two."""
    decided = [case.holds for case in cases if case.holds is not None]
    if not decided:
        return UNDECIDED
    return ALL if all(decided) else SOME if any(decided) else NONE


def verdict(claim: str, cases: Sequence[Case], advice: str = "") -> Iterator[str]:
    """Lines of Markdown: the paper's claim, whether it holds, where, where not and by how much; what a user takes."""
    parts = [
        f"{name}: {'; '.join(map(str, some))}"
        for name, some in (
            ("holds", _with(cases, True)),
            ("does not hold", _with(cases, False)),
            ("undecided", _with(cases, None)),
        )
        if some
    ]
    yield from prose(f"**Claim**: {claim}")
    yield from prose(f"**{word(cases)}**. {'. '.join(part[0].upper() + part[1:] for part in parts)}.")
    if advice:
        yield from prose(f"**For a user**: {advice}")


def _with(cases: Iterable[Case], holds: bool | None) -> list[Case]:
    return [case for case in cases if case.holds is holds]
