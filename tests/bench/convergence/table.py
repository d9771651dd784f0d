"""The convergence table: seconds to a certified optimum, and how far from it others end, and whether they say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import nan
from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import jobs
from tests.bench.convergence.peer import EPSILON, PEERS, solves
from tests.bench.convergence.problems import PROBLEMS, is_available
from tests.bench.real_data import Rows
from tests.bench.report import header, prose, row

LOSSES = ("hinge", "squared_hinge", "logistic", "epsilon_insensitive", "squared_epsilon_insensitive")
LEVELS = (1e-4, 1e-6)
# Of PROBLEMS, those whose tables are written down; the environment variable PROBLEM takes another one in their place.
PARTS = tuple(filter(None, os.environ.get("PROBLEM", "").split(","))) or (
    "iris",
    "wine",
    "breast_cancer",
    "digits8",
    "dna1",
    "letter1",
    "a9a",
    "mushrooms",
    "skin_nonskin",
    "equal_columns",
)
MOST_SECONDS, PEER_SECONDS = 120.0, float(os.environ.get("LIMIT", "60"))


def Cs() -> tuple[float, ...]:
    """The values of C: of the environment variable CS, or from 1e-3 to 1e4 in steps of ten."""
    given = os.environ.get("CS")
    return tuple(map(float, given.split(","))) if given else tuple(10.0**k for k in range(-3, 5))


def biases() -> tuple[bool, ...]:
    """Without bias and with it, or what the environment variable BIAS says: yes, no or both."""
    return {"yes": (True,), "no": (False,), "both": (False, True)}[os.environ.get("BIAS", "both")]


def run(name: str) -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Each line is a whole job on rows that have been read in, its start and certificate included, with a cache of "
        "a tenth of the decoded rows. *to 1e-4*, *to 1e-6*: seconds until (P - D) / P is certified to be that small, "
        "and core seconds of all processes in brackets. Others have all rows in memory and one thread; their seconds "
        f"are core seconds of `fit`, at most {PEER_SECONDS:g} with their copies of the rows, and *above* is how far "
        "their objective is above the certified optimum; *told* if they said so. LIBLINEAR is at its default -e, "
        "scikit-learn and Snap ML at their defaults, and with 100 times the iterations. epsilon is "
        f"{EPSILON}; regression is on the classes -1 and +1, and Snap ML has none. LinearSVR, LinearSVC and Snap ML "
        "penalise their intercept as the bias here; LogisticRegression does not, and has no line with bias."
    )
    yield from header("loss", "C", "bias", *(f"to {level:.0e}" for level in LEVELS), *PEERS, words=3)
    if not is_available(name):
        yield row(name, *["not available"] * (2 + len(LEVELS) + len(PEERS)))
        return
    X, y = PROBLEMS[name]()
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        for (loss, C, bias), cells in _lines(Path(directory), X, y, [*product(LOSSES, Cs(), biases())], LEVELS, PEERS):
            yield row(loss, f"{C:g}", "yes" if bias else "no", *cells)


def brief() -> Iterator[str]:
    """Lines of Markdown: all of PARTS at once, hinge loss with a bias, a usual C and a large one."""
    level, peers = LEVELS[0], PEERS[:2]
    yield from prose(
        "Hinge loss, a bias, columns on the scales they have. StreamSVM: a whole job, until (P - D) / P is certified "
        f"to be {level:.0e}, and its core seconds. Others: core seconds of `fit` at their defaults, at most "
        f"{PEER_SECONDS:g}, how far their objective ends above the optimum, and *told* if they said so."
    )
    yield from header("data", "C", "StreamSVM", *peers)
    for name in filter(is_available, PARTS):
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            problems = [("hinge", C, True) for C in (1.0, 1000.0)]
            for (_, C, _), cells in _lines(Path(directory), *PROBLEMS[name](), problems, (level,), peers):
                yield row(name, f"{C:g}", *cells)


Problem = tuple[str, float, bool]


def _lines(
    directory: Path,
    X: sparse.csr_matrix,
    y: np.ndarray,
    problems: Sequence[Problem],
    levels: Sequence[float],
    peers: Sequence[str],
) -> Iterator[tuple[Problem, list[str]]]:
    """Yield each problem, (loss, C, bias), with our cell for each level and that of each peer."""
    arrays = directory / "rows.npz"
    dataset = jobs.ingested(directory / "data", X, y)
    X = sparse.csr_matrix(X, dtype=np.float64)
    np.savez(arrays, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    with fitting(arrays) as fit:
        for loss, C, bias in problems:
            ours, best = [], np.inf
            for level in levels:
                seconds, certificate = _ours(dataset, loss, C, bias, level)
                ours.append(seconds)
                best = min(best, certificate["primal_objective"])
            yield (loss, C, bias), [*ours, *(_peer(fit, (X, y), peer, loss, C, bias, best) for peer in peers)]


def _ours(dataset: Path, loss: str, C: float, bias: bool, level: float) -> tuple[str, dict]:
    cache_bytes, _ = jobs.tenth(read_manifest(dataset))
    done = jobs.train(
        dataset, C=C, loss=loss, epsilon=EPSILON, bias=1.0 if bias else None, cache_bytes=cache_bytes, tolerance=None,
        relative_gap=level, max_passes=10**6, max_seconds=MOST_SECONDS,
    )  # fmt: skip
    gap = "" if done.result["converged"] else f"not: {done.certificate['relative_duality_gap']:.0e}, "
    return f"{gap}{done.seconds:.2f} ({done.spent.core_seconds or nan:.2f})", done.certificate


@contextmanager
def fitting(arrays: Path) -> Iterator[Callable[..., dict]]:
    """A function that has a peer fit a problem of these rows: see tests.bench.convergence.peer."""
    command = [sys.executable, "-m", "tests.bench.convergence.peer", str(arrays), str(PEER_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def fit(**problem: object) -> dict:
            print(json.dumps(problem), file=asked, flush=True)
            return json.loads(answered.readline())

        yield fit
        asked.close()


def _peer(fit: Callable[..., dict], rows: Rows, peer: str, loss: str, C: float, bias: bool, best: float) -> str:
    """Seconds, and how far above the optimum."""
    if not solves(peer, loss, bias):
        return "-"
    found = fit(peer=peer, loss=loss, C=C, bias=bias)
    if not found:
        return f"none in {PEER_SECONDS:.0f}"
    if "error" in found:
        return f"failed: {found['error'][:40]}"
    above = objective(rows, np.array(found["w"]), loss, C, bias) / best - 1.0
    return f"{found['seconds']:.2f}, {above:.0e} above" + (", told" if found["warned"] else "")


def objective(rows: Rows, w: np.ndarray, loss: str, C: float, bias: bool) -> float:
    """P(w), w (n_features,) or with the weight of the bias last."""
    X, y = rows
    outputs = X @ w[: X.shape[1]] + (w[-1] if bias else 0.0)
    margin, excess = y * outputs, np.maximum(0.0, np.abs(outputs - y) - EPSILON)
    losses = {
        "hinge": lambda: np.maximum(0.0, 1.0 - margin),
        "squared_hinge": lambda: np.maximum(0.0, 1.0 - margin) ** 2,
        "logistic": lambda: np.logaddexp(0.0, -margin),
        "epsilon_insensitive": lambda: excess,
        "squared_epsilon_insensitive": lambda: excess**2,
    }[loss]()
    return float(w @ w) / 2.0 + C * float(np.sum(losses))
