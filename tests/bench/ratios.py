"""What is promised: how many times as long as StreamSVM the others take, by the clock and in core seconds."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.measurement import JUDGED, Comparison
from tests.bench.report import header, prose, row
from tests.bench.usage import Spent

# heading -> (theirs, ours) at a level
PROMISED = {
    "whole run (>= 2)": lambda found, level: (found.liblinears_whole_run, found.whole_run(level)),
    "command (>= 2)": lambda found, level: (found.liblinears_whole_run, found.command(level)),
    "next job (>= 4)": lambda found, level: (found.liblinears_whole_run, found.next_job(level)),
    "training (>= 1)": lambda found, level: (found.peer("LIBLINEAR", level), found.training(level)),
}


def ratios_table(found: Comparison) -> Iterator[str]:
    """Two rows for each level judged."""
    yield "### Ratios"
    yield ""
    yield from prose(
        "The others' over StreamSVM's: more than 1, StreamSVM is ahead. The certificate that ends a job counts in all "
        "of StreamSVM's figures; the others certify nothing. *whole run*, *command*, *next job*: LIBLINEAR reads and "
        "trains at its default tolerance, against ingest and a first job, against `streamsvm train`, and against a job "
        "alone (start, training, certificates) for which another one has kept the rows. *training*, and all columns "
        "after it: the other's training alone until its objective was within the level, against training and "
        "certificates."
    )
    others = [name for name in (*found.jobs, *found.peers) if name not in ("streamsvm", "LIBLINEAR")]
    yield from header("to", "in", *PROMISED, *others, words=2)
    for level in JUDGED:
        pairs = [*_promised(found, level), *_against(found, level, others)]
        yield row(f"{level:.0e}", "seconds", *(times(ratio(*pair, "seconds")) for pair in pairs))
        yield row(f"{level:.0e}", "core seconds", *(times(ratio(*pair, "core_seconds")) for pair in pairs))
    yield ""


def _promised(found: Comparison, level: float) -> list[tuple[Spent | None, Spent | None]]:
    return [of(found, level) for of in PROMISED.values()]


def _against(found: Comparison, level: float, others: list[str]) -> list[tuple[Spent | None, Spent | None]]:
    ours = found.training(level)
    return [(found.training(level, name) if name in found.jobs else found.peer(name, level), ours) for name in others]


def ratio(theirs: Spent | None, ours: Spent | None, what: str) -> float | None:
    """Theirs over ours; None where one of them did not get there, or it is not known."""
    numbers = [getattr(spent, what, None) for spent in (theirs, ours)]
    return None if None in numbers or not numbers[1] else numbers[0] / numbers[1]


def times(number: float | None) -> str:
    """A ratio for a table."""
    return "-" if number is None else f"{number:.2f}x"
