"""The runs of OCAS and of others by time: on several sets, over a grid of C, and on more and more rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from streamsvm.storage.blocks.dataset import Dataset
from tests.bench import jobs
from tests.bench.papers.data import Data, Rows, real_rows
from tests.bench.papers.runs import kept, limit
from tests.bench.papers.trace import Optimum, reference, weights
from tests.bench.peers.measure import measure
from tests.bench.prepared import Prepared
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving

LIMIT = limit("ocas-time")
Curve = list[tuple[float, float]]  # (seconds, objective)

OURS = {"OCAS here": "ocas", "CPA here": "cpa"}
ACCURATE = {"libocas": "OCAS", "LIBLINEAR": "LIBLINEAR"}
GRADIENTS = {"SGD": "SGDClassifier"}
EXACT = 1e-3
TOLERANCE = 1e-4  # where OCAS and CPA end
ROWS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MADE_FEATURES = 20
_REFERENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Problem:
    """Curves of all solvers on a set at one C; `area`: under the ROC of OCAS's last w on test rows, None without."""

    name: str
    C: float
    optimum: Optimum
    curves: dict[str, Curve]
    area: float | None

    @property
    def title(self) -> str:
        return f"{self.name}, C = {self.C:g}"

    def seconds_to(self, solver: str, level: float) -> float | None:
        """Processor seconds of a solver to a relative difference; None: never, or nobody knows the optimum so well."""
        return None if self.optimum.doubt > level else seconds_to(self.curves[solver], self._objective(level))

    def _objective(self, level: float) -> float:
        return self.optimum.value * (1 + level)


def warm_up(directory: Path) -> None:
    """Compile what these runs need."""
    dataset = jobs.ingested(directory / "small", *random_problem())
    for solver in OURS.values():
        bounds(dataset, 1.0, solver, 0.5)


def bounds(dataset: Path, C: float, solver: str, most_seconds: float, test: Rows | None = None) -> dict:
    """F(w_b) after each pass of a run with all rows cached, which ends at TOLERANCE; `area` of its last w on `test`."""
    curve: Curve = []
    seconds = 0.0
    with (
        jobs.scratch() as directory,
        solving(directory / "run", dataset, 1 << 31, C=C, solver=solver, tolerance=TOLERANCE) as session,
    ):
        while seconds < most_seconds:
            began = time.process_time()
            progress = next(session.passes)
            seconds += time.process_time() - began
            curve.append((seconds, progress.primal_bound))
            if progress.distance <= TOLERANCE:
                break
        area = None if test is None else _area(test, weights(Dataset(dataset), session.w, test[0].shape[1]))
    return {"curve": curve, "area": area}


def _area(test: Rows, w: np.ndarray) -> float:
    X, y = test
    return float(roc_auc_score(y, X @ w[: X.shape[1]]))


def measured(data: Data, prepared: Prepared, C: float) -> Problem:
    """Run all solvers on a set at one C; `prepared` has the same rows for others."""
    name = data.name
    primal, dual = kept("ocas-time", (name, C, "optimum"), partial(reference, data, C, _REFERENCE_SECONDS))
    optimum = Optimum(primal, max(1 - dual / primal, 1e-9))
    ours = {
        label: kept(
            "ocas-time", (name, C, label), lambda solver=solver: bounds(data.dataset, C, solver, LIMIT, data.test)
        )
        for label, solver in OURS.items()
    }
    enough = optimum.value * (1 + EXACT / 10)
    theirs = {
        label: kept("ocas-time", (name, C, label), partial(_peer, peer, prepared, C, enough))
        for label, peer in {**ACCURATE, **GRADIENTS}.items()
    }
    curves = {label: one["curve"] for label, one in ours.items()} | theirs
    return Problem(name, C, optimum, curves, ours["OCAS here"]["area"])


def _peer(name: str, data: Prepared, C: float, enough: float) -> Curve:
    """Empty: it cannot run here."""
    points = measure(name, data, C, enough, LIMIT).points
    return [
        (point.spent.seconds if (cores := point.spent.core_seconds) is None else cores, point.objective)
        for point in points
    ]


def seconds_to(curve: Sequence[tuple[float, float]], level: float) -> float | None:
    """Seconds of the first point at or below the objective; None: it never was."""
    return min((seconds for seconds, objective in curve if objective <= level), default=None)


def ocas_seconds(n_rows: int, name: str, dataset: Path) -> float:
    """Processor seconds of OCAS to TOLERANCE of F(0) on so many rows of a set; C times the number of rows is 1,000."""
    found = kept("ocas-time", (name, n_rows), partial(bounds, dataset, 1e3 / n_rows, "ocas", LIMIT))
    return found["curve"][-1][0]


def of_sizes(directory: Path, name: str) -> Iterator[tuple[int, Path]]:
    """Datasets of as many rows of a set as ROWS says, of those that it has, drawn at random."""
    found = (_made(), None) if name == "made" else real_rows(name)
    if found is None:
        return
    X, y = found[0]
    order = np.random.default_rng(0).permutation(len(y))
    for n_rows in ROWS:
        if n_rows <= len(y):
            few = order[:n_rows]
            yield n_rows, jobs.ingested(directory / f"{name}-{n_rows}", X[few], y[few])


def _made() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((max(ROWS), MADE_FEATURES), np.float32).astype(np.float64)
    y = np.where(X @ rng.standard_normal(MADE_FEATURES) + rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    return sparse.csr_matrix(X), y
