"""The runs that AVSF's paper is held against: steps to the same rule, for each C, of each way to visit rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import mean

import numpy as np
from scipy import sparse

from tests.bench.papers.resident import Ended, Rows
from tests.bench.papers.resident import run as train
from tests.bench.papers.runs import SEEDS, TIMES, kept, limit, patience
from tests.bench.papers.verdict import is_ratio_above
from tests.bench.real_data import Rows as Labelled
from tests.bench.real_data import is_there, rows_of
from tests.bench.report import cell
from tests.reference.avsf import avsf
from tests.reference.data import available, load

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
LARGE = 10.0  # from which on the paper finds AVSF ahead
TOLERANCES = (0.01, 0.001)
WAYS: dict[str, dict[str, str]] = {
    "dcd": {"solver": "dcd"},
    "accumulators": {"solver": "avsf", "schedule": "accumulators"},
    "paper": {"solver": "avsf", "schedule": "paper"},
}
ORDER = ("accumulators", "paper", "dcd")  # of running: the likely winner at large C first
TRANSCRIBED = "transcribed"
LIMIT = limit("avsf")
SURE = 1.5  # a bound of one seed decides beyond this: seeds differ by less
MOST_SWEEPS = 1_000_000


def news20(positive: Callable[[np.ndarray], np.ndarray]) -> Labelled | None:
    """The rows whose class `positive` picks against the others; log(1 + count), rows of length 1."""
    if not available("news20"):
        return None
    X, y = load("news20")
    X = sparse.csr_matrix((np.log1p(X.data), X.indices, X.indptr), X.shape)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(lengths, 1e-30)) @ X), np.where(positive(y), 1.0, -1.0)


def _real(name: str) -> Labelled | None:
    return rows_of(name) if is_there(name) else None


SETS: dict[str, Callable[[], Labelled | None]] = {
    "news20": lambda: news20(lambda y: y <= 10),
    "news20-1": lambda: news20(lambda y: y == 1),
    "a9a": lambda: _real("a9a"),
    "imdb": lambda: _real("imdb.train"),
    "skin": lambda: _real("skin_nonskin"),
    "mnist8": lambda: _real("mnist8"),
}


@dataclass(frozen=True)
class Runs:
    """Runs that differ in their seeds, the first alone if that gave up; `converged`: all met the tolerance."""

    runs: list[Ended]

    @property
    def converged(self) -> bool:
        return all(one.converged for one in self.runs)

    @property
    def visits(self) -> float:
        return mean(one.visits for one in self.runs)

    @property
    def seconds(self) -> float:
        return mean(one.seconds for one in self.runs)

    @property
    def relative_gap(self) -> float:
        return max(one.relative_gap for one in self.runs)


Train = Callable[[float, float, float, int], Ended]  # C, tolerance, most seconds, seed


@dataclass(frozen=True)
class Measured:
    """All runs on a set, by (tolerance, C, way); `printed` runs the transcription."""

    name: str
    n_rows: int
    rows: Rows
    printed: Train
    found: dict[tuple[float, float, str], Runs] = field(default_factory=dict)

    def measure(self) -> None:
        for way in (*WAYS, TRANSCRIBED):
            self._run_of(way)(1.0, 1.0, 0.0, 0)  # compiles
        for tolerance in TOLERANCES:
            for C in COSTS:
                self._measure(tolerance, C)

    def _measure(self, tolerance: float, C: float) -> None:
        first: dict[str, Ended] = {}
        for way in ORDER:
            before = self.found.get((TOLERANCES[0], C, way))
            if before is not None and not before.converged:
                first[way] = before.runs[0]  # it has not come as far as to differ
            else:
                first[way] = self._kept(tolerance, C, way, 0, patience(_ended(first), LIMIT))
        enough = TIMES * min(_ended(first), default=0.0)
        for way, run in first.items():
            if not run.converged and run.seconds < enough:
                first[way] = self._kept(tolerance, C, way, 0, enough)
        for way, run in first.items():
            others = range(1, SEEDS) if run.converged else ()
            more = [self._kept(tolerance, C, way, seed, max(enough, LIMIT)) for seed in others]
            self.found[tolerance, C, way] = Runs([run, *more])
        printed = [self._kept(tolerance, C, TRANSCRIBED, 0, max(enough, LIMIT))] if _ended(first) else []
        self.found[tolerance, C, TRANSCRIBED] = Runs(printed)

    def _kept(self, tolerance: float, C: float, way: str, seed: int, most_seconds: float) -> Ended:
        is_longer = most_seconds > LIMIT
        key = self.name, tolerance, C, way, seed, is_longer
        return Ended(**kept("avsf", key, lambda: asdict(self._run_of(way)(C, tolerance, most_seconds, seed))))

    def _run_of(self, way: str) -> Train:
        return self.printed if way == TRANSCRIBED else self._trainer(way)

    def _trainer(self, way: str) -> Train:
        def run(C: float, tolerance: float, most_seconds: float, seed: int) -> Ended:
            ends = {"tolerance": tolerance, "most_seconds": most_seconds, "most_sweeps": MOST_SWEEPS, "seed": seed}
            return train(self.rows, C, **ends, **WAYS[way])  # type: ignore[arg-type]

        return run


def transcription(name: str, data: Labelled) -> Train:
    """Runs of Algorithms 3 to 5 as printed; free rows and gap are not asked for."""
    X, y = sparse.csr_matrix(data[0], dtype=np.float64), data[1]

    def run(C: float, tolerance: float, most_seconds: float, seed: int) -> Ended:
        began, sweeps = time.process_time(), 0
        for sweep in avsf(X, y, C, tolerance, seed):
            sweeps += 1
            seconds = time.process_time() - began
            if sweep.is_last or seconds > most_seconds:
                break
        return Ended(sweep.steps, 0, seconds, sweeps, float("nan"), sweep.is_last)

    return run


def _ended(runs: Mapping[str, Ended]) -> list[float]:
    """Seconds of the runs that ended by their rule."""
    return [run.seconds for run in runs.values() if run.converged]


def cost_ratio(theirs: Runs, ours: Runs, what: str) -> tuple[str, bool | None]:
    """Theirs over ours as a text, and whether ours is less; a bound if one gave up, undecided if that says nothing."""
    return ratio([theirs], [ours], what)


def grid_ratio(one: Measured, tolerance: float, what: str) -> tuple[str, bool | None]:
    """dcd's over AVSF's of the sums over all C."""
    theirs, ours = ([one.found[tolerance, C, way] for C in COSTS] for way in ("dcd", "accumulators"))
    return ratio(theirs, ours, what)


def ratio(theirs: Iterable[Runs], ours: Iterable[Runs], what: str) -> tuple[str, bool | None]:
    """The ratio of two sums, and whether it is above 1, as far as those that gave up let it be told."""
    theirs, ours = list(theirs), list(ours)
    number = sum(getattr(one, what) for one in theirs) / sum(getattr(one, what) for one in ours)
    ended = [all(one.converged for one in some) for some in (theirs, ours)]
    text = cell(number, ".2g")
    if all(ended):
        return text, is_ratio_above(_by_seed(theirs, ours, what))
    if not any(ended):
        return "-", None
    if ended[1]:
        return f"> {text}", True if number >= SURE else None
    return f"< {text}", False if number <= 1 / SURE else None


def _by_seed(theirs: list[Runs], ours: list[Runs], what: str) -> list[float]:
    """The ratio of the sums of each seed."""
    sums = [
        [sum(getattr(one, what) for one in seed) for seed in zip(*(runs.runs for runs in some), strict=True)]
        for some in (theirs, ours)
    ]
    return [their / our for their, our in zip(*sums, strict=True)]
