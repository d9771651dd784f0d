"""The convergence table: seconds to a certified optimum, and how far from it others end, and whether they say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import jobs
from tests.bench.convergence.peer import PEERS
from tests.bench.convergence.problems import PROBLEMS, is_available
from tests.bench.real_data import Rows
from tests.bench.report import header, prose, row

RELATIVE_GAP = 1e-4
CS = (1.0, 1000.0)  # a usual one and a large one
MOST_SECONDS, PEER_SECONDS = 120.0, float(os.environ.get("LIMIT", "60"))


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, a bias, columns on the scales they have. StreamSVM: a whole job, until (P - D) / P is certified "
        f"to be {RELATIVE_GAP:.0e}, and its core seconds. Others: core seconds of `fit` at their defaults, at most "
        f"{PEER_SECONDS:g}, how far their objective ends above the optimum, and *told* if they said so."
    )
    yield from header("data", "C", "StreamSVM", *PEERS)
    for name in filter(is_available, PROBLEMS):
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield from _rows(Path(directory), name, *PROBLEMS[name]())


def _rows(directory: Path, name: str, X: sparse.csr_matrix, y: np.ndarray) -> Iterator[str]:
    arrays = directory / "rows.npz"
    dataset = jobs.ingested(directory / "data", X, y)
    X = sparse.csr_matrix(X, dtype=np.float64)
    np.savez(arrays, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    with fitting(arrays) as fit:
        for C in CS:
            ours, certificate = _ours(dataset, C)
            best = certificate["primal_objective"]
            yield row(name, f"{C:g}", ours, *(_peer(fit, (X, y), peer, C, best) for peer in PEERS))


def _ours(dataset: Path, C: float) -> tuple[str, dict]:
    cache_bytes, _ = jobs.tenth(read_manifest(dataset))
    done = jobs.train(
        dataset, C=C, bias=1.0, cache_bytes=cache_bytes, tolerance=None, relative_gap=RELATIVE_GAP, max_passes=10**6,
        max_seconds=MOST_SECONDS,
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


def _peer(fit: Callable[..., dict], rows: Rows, peer: str, C: float, best: float) -> str:
    """Seconds, and how far above the optimum."""
    found = fit(peer=peer, C=C)
    if not found:
        return f"none in {PEER_SECONDS:.0f}"
    if "error" in found:
        return f"failed: {found['error'][:40]}"
    above = objective(rows, np.array(found["w"]), C) / best - 1.0
    return f"{found['seconds']:.2f}, {above:.0e} above" + (", told" if found["warned"] else "")


def objective(rows: Rows, w: np.ndarray, C: float) -> float:
    """P(w), w (n_features + 1,) with the weight of the bias last."""
    X, y = rows
    losses = np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1]))
    return float(w @ w) / 2.0 + C * float(np.sum(losses))
