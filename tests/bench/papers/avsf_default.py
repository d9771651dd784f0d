"""The product's default on the problems of AVSF's paper that no coordinate descent ends in time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import jobs
from tests.bench.papers.avsf_runs import COSTS, LIMIT, SETS, TOLERANCES, WAYS, Measured
from tests.bench.papers.runs import kept
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent


def lines(sets: list[Measured]) -> Iterator[str]:
    """Lines of Markdown: gaps where none has ended, and the seconds of `streamsvm` to the same rule."""
    yield "### Where none ends"
    yield ""
    yield from prose(
        f"Problems that no contender ended in {LIMIT:g} s, with the relative gaps they had then. *streamsvm*: core "
        "seconds of the default solver, which goes over to Newton steps, to M+ - M- of at most eps, all rows in the "
        "cache, a certificate included; one run."
    )
    yield from header("data, eps", "C", *(f"gap, {way}" for way in WAYS), "streamsvm, core s", "ended")
    for one in sets:
        unended = [key for key in _problems() if not any(one.found[*key, way].converged for way in WAYS)]
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            train = _trainer(Path(directory) / one.name, one.name)
            for tolerance, C in unended:
                gaps = [f"{one.found[tolerance, C, way].relative_gap:.0e}" for way in WAYS]
                key = one.name, tolerance, C, "default"
                seconds, converged = kept("avsf", key, partial(train, tolerance, C))
                ended = "yes" if converged else "no"
                yield row(f"{one.name}, {tolerance:g}", f"{C:g}", *gaps, cell(seconds), ended)
    yield ""


def _problems() -> Iterator[tuple[float, float]]:
    return ((tolerance, C) for tolerance in TOLERANCES for C in COSTS)


def _trainer(dataset: Path, name: str) -> Callable[[float, float], tuple[float | None, bool]]:
    """Trains on the set, which is read in for the first run; core seconds, and whether the rule ended it."""

    def train(tolerance: float, C: float) -> tuple[float | None, bool]:
        if not dataset.exists():
            found = SETS[name]()
            assert found is not None
            jobs.ingested(dataset, *found)
        whole = 2 * read_manifest(dataset).decoded_bytes + (64 << 20)
        run = jobs.train(dataset, cache_bytes=whole, C=C, tolerance=tolerance, max_seconds=300.0)
        spent = sum(run.phases.values(), Spent(0.0, 0.0))
        return spent.core_seconds, bool(run.results[0]["converged"])

    return train
