"""The runs of OCAS and of others by time: on several sets, over a grid of C, and on more and more rows."""

from __future__ import annotations

import tempfile
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
from tests.bench.papers.ocas_jobs import most_cuts
from tests.bench.papers.runs import SEEDS, kept, limit, patience
from tests.bench.papers.trace import Optimum, reference, weights
from tests.bench.peers.measure import measure
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving

LIMIT = limit("ocas-time")
Curve = list[tuple[float, float]]  # (seconds, objective)

OURS = {"OCAS here": "ocas", "CPA here": "cpa"}
ACCURATE = {"libocas": "OCAS", "LIBLINEAR": "LIBLINEAR"}
GRADIENTS = {"SGD": "SGDClassifier"}
NAMES = (*OURS, *ACCURATE, *GRADIENTS)
IN_TURN = ("LIBLINEAR", "OCAS here", "libocas", "SGD", "CPA here")  # the likely winner first: see `patience`
MOST_EPOCHS = 50  # of SGD
SETTINGS = 3  # LIBLINEAR's runs, one a tolerance, may take so many times the limit together
EXACT = 1e-3
TOLERANCE = 1e-4  # where OCAS ends on more and more rows
ROWS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MADE_FEATURES = 20
_REFERENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Problem:
    """Curves of all solvers on a set at one C, one a repeat.

    area  under the ROC of OCAS's last w on test rows, None without
    """

    name: str
    C: float
    optimum: Optimum
    curves: dict[str, list[Curve]]
    area: float | None

    @property
    def title(self) -> str:
        return f"{self.name}, C = {self.C:g}"

    def is_known(self, level: float) -> bool:
        """Whether the optimum is known so well."""
        return self.optimum.doubt <= level

    def seconds_to(self, solver: str, level: float) -> list[float | None]:
        """Processor seconds of each repeat to a relative difference; None: never, or nobody knows the optimum so well.

        Empty: the solver is not there.
        """
        value = self.optimum.value * (1 + level)
        return [seconds_to(curve, value) if self.is_known(level) else None for curve in self.curves[solver]]

    def off(self, solver: str) -> float:
        """The least relative difference that every repeat came to."""
        return max(min(objective for _, objective in curve) for curve in self.curves[solver]) / self.optimum.value - 1


def warm_up(directory: Path) -> None:
    """Compile what these runs need."""
    dataset = jobs.ingested(directory / "small", *random_problem())
    for solver in OURS.values():
        bounds(dataset, 1.0, solver, 0.5)


def bounds(
    dataset: Path, C: float, solver: str, most_seconds: float, enough: float | None = None, test: Rows | None = None
) -> dict:
    """F(w_b) after each pass of a run with all rows cached, and `area` of its last w on `test`.

    It `ended` when F(w_b) was `enough`, or, without that, when the bounds were TOLERANCE of F(0) apart.
    """
    curve: Curve = []
    seconds, ended = 0.0, False
    given = {"C": C, "solver": solver, "tolerance": None, "threads": 1, "max_cuts": most_cuts(dataset)}
    with jobs.scratch() as directory, solving(directory / "run", dataset, 1 << 31, **given) as session:
        while seconds < most_seconds and not ended:
            began = time.process_time()
            progress = next(session.passes)
            seconds += time.process_time() - began
            curve.append((seconds, progress.primal_bound))
            ended = progress.distance <= TOLERANCE if enough is None else progress.primal_bound <= enough
        area = None if test is None else _area(test, weights(Dataset(dataset), session.w, test[0].shape[1]))
    return {"curve": curve, "area": area, "ended": ended}


def _area(test: Rows, w: np.ndarray) -> float:
    X, y = test
    return float(roc_auc_score(y, X @ w[: X.shape[1]]))


def measured(data: Data, prepared: Prepared, C: float) -> Problem:
    """Run all solvers on a set at one C, SEEDS times in turn; `prepared` has the same rows for others.

    One that did not come to EXACT in the first turn runs in no other, SGD excepted: the others would only do the same
    again. Where none came there, the first turn is the only one.
    """
    primal, dual = kept("ocas-time", (data.name, C, "optimum"), partial(reference, data, C, _REFERENCE_SECONDS))
    optimum = Optimum(primal, max(1 - dual / primal, 1e-9))
    curves: dict[str, list[Curve]] = {name: [] for name in NAMES}
    areas, names = [], list(IN_TURN)
    for seed in range(SEEDS):
        ended: dict[str, float] = {}
        for name in names:
            most = patience(ended.values(), LIMIT)
            run = partial(_run, name, data, prepared, C, optimum.value, most, seed)
            found = kept("ocas-time", (data.name, C, name, seed), run)
            if found["curve"]:
                curves[name].append(found["curve"])
            areas.append(found.get("area"))
            seconds = seconds_to(found["curve"], optimum.value * (1 + EXACT))
            ended |= {} if seconds is None else {name: seconds}
        names = [name for name in names if name in ended or name in GRADIENTS] if ended else []
    return Problem(data.name, C, optimum, curves, next((area for area in areas if area is not None), None))


def _run(name: str, data: Data, prepared: Prepared, C: float, optimum: float, most_seconds: float, seed: int) -> dict:
    """Until the objective is well below EXACT, or so many seconds are over. An empty curve: it cannot run here."""
    enough = optimum * (1 + EXACT / 10)
    if name in OURS:
        test = data.test if name == "OCAS here" and seed == 0 else None
        return bounds(data.dataset, C, OURS[name], most_seconds, enough, test)
    peer = {**ACCURATE, **GRADIENTS}[name]
    fields: dict[str, dict[str, float]] = {
        "LIBLINEAR": {"may_end": True},
        "libocas": {"solver_seconds": most_seconds},
        "SGD": {"seed": seed, "epochs": MOST_EPOCHS},
    }
    most = SETTINGS * most_seconds if name == "LIBLINEAR" else most_seconds
    points = measure(peer, prepared, C, enough, most, **fields.get(name, {})).points
    return {"curve": [(_processor_seconds(point.spent), point.objective) for point in points]}


def _processor_seconds(spent: Spent) -> float:
    return spent.seconds if spent.core_seconds is None else spent.core_seconds


def seconds_to(curve: Sequence[tuple[float, float]], level: float) -> float | None:
    """Seconds of the first point at or below the objective; None: it never was."""
    return min((seconds for seconds, objective in curve if objective <= level), default=None)


@dataclass(frozen=True)
class Sized:
    """OCAS on so many rows of a set: seconds of each repeat, on rows of its own, and whether all ended by the rule."""

    n_rows: int
    seconds: list[float]
    ended: bool


def of_sizes(directory: Path, name: str) -> Iterator[Sized]:
    """OCAS to TOLERANCE of F(0) on as many rows as ROWS says, of those that a set has, drawn at random by each repeat.

    C times the number of rows is 1,000.
    """
    found = (_made(), None) if name == "made" else real_rows(name)
    if found is None:
        return
    X, y = found[0]
    orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(SEEDS)]
    for n_rows in ROWS:
        if n_rows <= len(y):
            found_here = [
                kept("ocas-time", (name, n_rows, seed), partial(_of_rows, directory, X, y, order[:n_rows]))
                for seed, order in enumerate(orders)
            ]
            seconds = [one["curve"][-1][0] for one in found_here]
            yield Sized(n_rows, seconds, all(one["ended"] for one in found_here))


def _of_rows(directory: Path, X: sparse.csr_matrix, y: np.ndarray, few: np.ndarray) -> dict:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        dataset = jobs.ingested(Path(place) / "rows", X[few], y[few])
        return bounds(dataset, 1e3 / len(few), "ocas", LIMIT)


def _made() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((max(ROWS), MADE_FEATURES), np.float32).astype(np.float64)
    y = np.where(X @ rng.standard_normal(MADE_FEATURES) + rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    return sparse.csr_matrix(X), y
