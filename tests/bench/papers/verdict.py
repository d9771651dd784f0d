"""A verdict on a claim, computed from the cases that a table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tests.bench.report import prose

LEVEL = 0.05  # of the tests: what chance brings about more often is undecided
PAIRED = f"a verdict is that of a paired test over the seeds, two-sided, at {LEVEL:.0%}; with one seed there is none"
UNDECIDED, ALL, SOME, NONE = WORDS = ("Undecided", "Reproduced", "In part", "Not reproduced")


@dataclass(frozen=True)
class Case:
    """A line of a table: where it is measured, whether the claim holds there (None: undecided), and its figures.

    count  of cases that it stands for
    """

    where: str
    holds: bool | None
    figures: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.where} ({self.figures})"


@dataclass(frozen=True)
class Part:
    """A case of many on the same set: `at` what value, and how far from holding (`off`, more is worse)."""

    group: str
    at: str
    holds: bool | None
    off: float
    figures: str


def grouped(parts: Iterable[Part]) -> list[Case]:
    """A case for all parts of a group that have the same outcome, with the figures of the worst of them."""
    order: dict[str, list[Part]] = {}
    for part in parts:
        order.setdefault(part.group, []).append(part)
    cases = []
    for group, some in order.items():
        for holds in (True, False, None):
            places = [place for place, part in enumerate(some) if part.holds is holds]
            if places:
                worst = max((some[place] for place in places), key=lambda part: part.off)
                figures = worst.figures if len(places) == 1 else f"at worst, at {worst.at}: {worst.figures}"
                where = f"{group} {_in_words([part.at for part in some], places)}"
                cases.append(Case(where, holds, figures, len(places)))
    return cases


def _in_words(values: Sequence[str], places: Iterable[int]) -> str:
    """Values at these places; three or more in a row as the first to the last."""
    rows: list[list[str]] = []
    last = None
    for place in places:
        if last is None or place != last + 1:
            rows.append([])
        rows[-1].append(values[place])
        last = place
    return ", ".join(f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(row) for row in rows)


def is_above(differences: Iterable[float]) -> bool | None:
    """Whether differences of paired runs, one a seed, are above 0; None: a two-sided test at LEVEL does not tell.

    Student's t-test; a sign test where a run never got there (inf), or nobody did (nan, a tie).
    """
    each = np.nan_to_num(np.array([*differences], float), nan=0.0, posinf=np.inf, neginf=-np.inf)
    if len(each) < 2 or not each.any():
        return None
    if np.isinf(each).any():
        more, less = int(np.sum(each > 0)), int(np.sum(each < 0))
        chance, is_more = stats.binomtest(more, more + less).pvalue, more > less
    else:
        chance = stats.ttest_1samp(each, 0.0).pvalue if np.ptp(each) else 0.0
        is_more = bool(each.mean() > 0)
    return is_more if chance <= LEVEL else None


def is_ratio_above(ratios: Iterable[float | None], bound: float = 1.0) -> bool | None:
    """Compare ratios of paired runs with 1, or another bound; a ratio is None where nothing is known of a seed."""
    known = [*ratios]
    if None in known:
        return None
    with np.errstate(divide="ignore"):
        return is_above(np.log(np.array(known, float)) - np.log(bound))


def decided(cases: Iterable[Case]) -> tuple[int, int]:
    """Return the number of cases that are decided, and of all cases."""
    cases = list(cases)
    return sum(case.count for case in cases if case.holds is not None), sum(case.count for case in cases)


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
    told = "**{}** ({} of {} decided).".format(word(cases), *decided(cases))
    yield from prose(" ".join([told, *(f"{part[0].upper()}{part[1:]}." for part in parts)]))
    if advice:
        yield from prose(f"**For a user**: {advice}")


def _with(cases: Iterable[Case], holds: bool | None) -> list[Case]:
    return [case for case in cases if case.holds is holds]
