"""A job under the glass: reader and trainer take turns in this process, and w is looked at after the passes.

With `pace` "fixed" this is the very run that the two processes of a job make. What is measured does not depend on what
else the machine does: updates, passes, bytes, and seconds of processor time, looking excluded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.run.state import open_control
from tests.bench import curve, jobs
from tests.bench.papers.data import Data
from tests.bench.papers.runs import kept
from tests.bench.usage import Spent
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving
from tests.reference.optima import GAPS, OPTIMA, interior_point

FEW_FEATURES = 10  # an interior point method is quick there
FEWEST_PASSES = 4
_GROWTH = 1.1  # of the updates from one point to the next
_EXACT = 1e-6


@dataclass(frozen=True)
class Point:
    """A run after so many passes.

    updates     coordinate updates, or gradients looked at, for each row of the data
    seconds     of processor time: reading, decoding and training
    read_bytes  of the dataset
    primal      P(w); dual: D(alpha), nan if the solver has none
    accuracy    share of test rows told right, None without test rows
    """

    passes: int
    updates: float
    seconds: float
    read_bytes: int
    primal: float
    dual: float
    accuracy: float | None

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return (self.primal - self.dual) / self.primal


@dataclass(frozen=True)
class Optimum:
    """The least objective known; the least there is may be lower by the share `doubt`."""

    value: float
    doubt: float

    def difference(self, point: Point) -> float:
        """(P - P*) / P*, never below what can be told."""
        return max(curve.difference(point.primal, self.value), self.doubt)

    def dual_difference(self, point: Point) -> float:
        """(D* - D) / D*, which the paper of StreamSVM plots, likewise."""
        return max(1 - point.dual / self.value, self.doubt)


def trace(
    data: Data, C: float, cache_bytes: int, passes: int, seconds: float, gap: float = 0.0, dataset: Path | None = None,
    **settings: object,
) -> list[Point]:  # fmt: skip
    """Points of a run, which ends after so many passes, seconds (but FEWEST_PASSES at least), or at a relative gap.

    dataset  to be used instead of that of `data`, with the same rows
    """
    source = Dataset(dataset or data.dataset)
    points: list[Point] = []
    spent = 0.0
    with jobs.scratch() as directory:
        run, began = directory / "run", time.process_time()
        with solving(run, source.directory, cache_bytes, C=C, tolerance=None, **settings) as session:
            for progress in session.passes:
                spent += time.process_time() - began
                updates = progress.updates / source.manifest.n_rows
                is_last = progress.pass_ >= passes or (spent >= seconds and progress.pass_ >= FEWEST_PASSES)
                if is_last or not points or updates >= _GROWTH * points[-1].updates:
                    w, read_bytes = weights(source, session.w, data.X.shape[1]), int(open_control(run)["read_bytes"])
                    found = data.primal(w, C), progress.dual_objective, data.accuracy(w)
                    points.append(Point(progress.pass_, updates, spent, read_bytes, *found))
                if is_last or points[-1].gap <= gap:
                    break
                began = time.process_time()
    return points


def trace_kept(name: str, key: tuple[object, ...], *given: Any, **settings: Any) -> list[Point]:
    """`trace` of these, or what it found at this commit before (`runs.kept`)."""
    found = kept(name, key, lambda: [asdict(point) for point in trace(*given, **settings)])
    return [Point(**point) for point in found]


def weights(source: Dataset, w: np.ndarray, n_features: int) -> np.ndarray:
    """w (width,) of a solver as the columns of the rows are that were read in, at least `n_features` of them.

    Where features are far apart, the dataset stores only those that occur.
    """
    known = np.zeros(max(n_features + source.manifest.index_base, int(source.numbers.max()) + 1))
    known[source.numbers] = w
    return known[source.manifest.index_base :]


def warm_up(directory: Path, ways: Iterable[dict[str, object]]) -> None:
    """Compile, or load, all that these ways to train need, so that no trace has to."""
    X, y = random_problem()
    data = Data("small", jobs.ingested(directory / "small", X, y), X, y, None)
    for way in ways:
        trace(
            data, 1.0, data.whole, passes=4, seconds=60.0, **{**way, **({"n_blocks": 3} if "n_blocks" in way else {})}
        )


def reference(data: Data, C: float, seconds: float) -> tuple[float, float]:
    """(P, D) near the optimum: known, by an interior point method, or by a job of the default solver, in memory.

    seconds  that the job may take; where features are not too many it takes Newton steps, so large C are certified, too
    """
    known = data.known_as, C
    if known in OPTIMA:
        return OPTIMA[known], OPTIMA[known] * (1 - GAPS[known])
    if data.X.shape[1] <= FEW_FEATURES:
        found = interior_point(data.X, data.y, C, _EXACT / 10)
        return found.primal, found.primal * (1 - found.gap)
    done = jobs.train(
        data.dataset, C=C, cache_bytes=data.whole, tolerance=None, relative_gap=_EXACT, max_passes=10**6,
        max_seconds=seconds,
    )  # fmt: skip
    return done.certificate["primal_objective"], done.certificate["dual_objective"]


def optimum_of(reference_point: tuple[float, float], traces: Iterable[Sequence[Point]]) -> Optimum:
    """Whoever came lowest has shown that the optimum is no higher, and whoever has the highest dual, no lower."""
    points = [point for points in traces for point in points]
    primal = min([reference_point[0], *(point.primal for point in points)])
    dual = max([reference_point[1], *(point.dual for point in points if math.isfinite(point.dual))])
    return Optimum(primal, max(1 - dual / primal, 1e-9))


def after(points: Sequence[Point], passes: int) -> Point:
    """The last point that came after so many passes or fewer."""
    return [point for point in points if point.passes <= max(passes, points[0].passes)][-1]


def updates_to(points: Iterable[Point], optimum: Optimum, level: float) -> float | None:
    """Updates a row after which the relative difference first was `level`; None if it never was, or nobody knows."""
    return _to(((p.updates, p.primal) for p in points), optimum, level)


def seconds_to(points: Iterable[Point], optimum: Optimum, level: float) -> float | None:
    """The same in seconds of processor time."""
    return _to(((p.seconds, p.primal) for p in points), optimum, level)


def _to(pairs: Iterable[tuple[float, float]], optimum: Optimum, level: float) -> float | None:
    if optimum.doubt > level:
        return None
    found = curve.spent_to((curve.Point(Spent(cost), primal) for cost, primal in pairs), optimum.value, level)
    return found.seconds if found else None
