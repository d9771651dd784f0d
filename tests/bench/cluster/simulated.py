"""Rounds for many machines, simulated on real rows, and the seconds that a model makes of them.

The simulation is the algorithm itself on rows in memory, machine after machine (Ma et al. 2015, with the line search of
`service.cluster.rounds.convergence` and the pool of `service.cluster.rounds.pool`): its rounds are exact, its seconds
are the model's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.service.cluster.rounds.convergence import SLOW, best_step
from streamsvm.service.cluster.rounds.pool import SHARE_OF_GAP
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.updates.statistics import LEAST_SLACK
from tests.bench.cluster.optimum import trained
from tests.bench.jobs import ingested
from tests.bench.report import cell, header, prose
from tests.bench.report import row as line
from tests.ray_nodes import Nodes
from tests.reference.data import available, load_binary
from tests.reference.optima import OPTIMA

MACHINES = (1, 2, 4, 8, 16, 32, 64)
ROWS = 25_000
MOST_ROUNDS = 400
SWEEPS = 3  # of a round: what a share of three quarters of the gap took on two machines
TARGETS = (1e-3, 1e-4)
_MOST_SWEEPS = 200
DISK, NETWORK, LATENCY = 500e6, 1.25e9, 5e-3  # bytes a second, bytes a second, seconds


@dataclass(frozen=True)
class Simulated:
    """P - D over P after each round, and the bytes that a machine sends in one.

    pooled  of each round, values of the rows in the pool, and of visits to them; (0, 0): there was none
    """

    gaps: list[float]
    sent_bytes: float
    pooled: list[tuple[int, int]]

    def rounds(self, target: float) -> int | None:
        """To a relative gap of `target`."""
        return next((number for number, gap in enumerate(self.gaps, 1) if gap <= target), None)


@njit(cache=True, nogil=True)
def _sweep(
    indptr: Array, indices: Array, values: Array, y: Array, Q: Array, C: float, rows: Array, b: Array, w: Array
) -> None:
    for place in range(len(rows) - 1, 0, -1):
        other = np.random.randint(0, place + 1)
        rows[place], rows[other] = rows[other], rows[place]
    for i in rows:
        if Q[i] == 0.0:
            continue
        dot = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            dot += w[indices[p]] * values[p]
        new = min(max(b[i] - (y[i] * dot - 1.0) / Q[i], 0.0), C)
        step = (new - b[i]) * y[i]
        b[i] = new
        if step != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                w[indices[p]] += step * values[p]


def simulate(X: sparse.csr_matrix, y: Array, C: float, machines: int, most_rounds: int = MOST_ROUNDS) -> Simulated:
    """Hinge loss, all of the rows."""
    n, d = X.shape
    sigma = float(machines)
    Q = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    owner = np.random.default_rng(0).permutation(n) % machines
    rows = [np.flatnonzero(owner == k) for k in range(machines)]
    features = [np.unique(X[own].indices) for own in rows]
    alpha, w = np.zeros(n), np.zeros(d)
    gaps, pooled, is_slow, before = [], [], False, np.inf
    while len(gaps) < most_rounds:
        end_alpha, end_w, own_w = alpha.copy(), w.copy(), w.copy()
        for own, used in zip(rows, features, strict=True):
            scaled = sigma * alpha
            for _ in range(SWEEPS):
                _sweep(X.indptr, X.indices, X.data, y, Q, sigma * C, own, scaled, own_w)
            end_alpha[own] = scaled[own] / sigma
            end_w[used] += (own_w[used] - w[used]) / sigma
            own_w[used] = w[used]
        change = (end_w - w)[:, np.newaxis]
        step = best_step(w[:, np.newaxis], change, np.array([(end_alpha - alpha).sum()]), np.zeros(1))
        alpha, w = alpha + step[0] * (end_alpha - alpha), w + step[0] * (end_w - w)
        P, D = _objectives(X, y, C, alpha, w)
        is_slow, before = is_slow or before < (P - D) / SLOW, P - D
        has_pool = is_slow and machines > 1 and TARGETS[-1] * P < P - D
        pooled.append(_pool(X, y, Q, C, alpha, w, P - D) if has_pool else (0, 0))
        P, D = _objectives(X, y, C, alpha, w)
        gaps.append((P - D) / P)
        if gaps[-1] <= TARGETS[-1]:
            break
    # An index and a number of what a machine's rows have, or all numbers.
    sent = np.mean([min(8.0 * len(used), 4.0 * d) for used in features])
    return Simulated(gaps, float(sent), pooled)


def _objectives(X: sparse.csr_matrix, y: Array, C: float, alpha: Array, w: Array) -> tuple[float, float]:
    """P and D."""
    return w @ w / 2 + C * np.maximum(0.0, 1.0 - y * (X @ w)).sum(), alpha.sum() - w @ w / 2


def _pool(X: sparse.csr_matrix, y: Array, Q: Array, C: float, alpha: Array, w: Array, gap: float) -> tuple[int, int]:
    """Train the rows that do not rest, in place; values of these, and of the visits."""
    margin = 1.0 - y * (X @ w)
    rests = np.where(alpha == 0.0, -margin, np.where(alpha == C, margin, -1.0)) > LEAST_SLACK
    rows = np.flatnonzero(~rests)
    values, sweeps, left = int(np.diff(X.indptr)[rows].sum()), 0, gap
    while left > SHARE_OF_GAP * gap and sweeps < _MOST_SWEEPS:
        _sweep(X.indptr, X.indices, X.data, y, Q, C, rows, alpha, w)
        sweeps += 1
        margin = 1.0 - y[rows] * (X[rows] @ w)
        left = float((C * np.maximum(0.0, margin) - alpha[rows] * margin).sum())
    return values, sweeps * values


def value_seconds(X: sparse.csr_matrix, y: Array) -> float:
    """Of a value in a sweep, both ways, measured."""
    Q = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    rows, alpha, w = np.arange(X.shape[0]), np.zeros(X.shape[0]), np.zeros(X.shape[1])
    _sweep(X.indptr, X.indices, X.data, y, Q, 1.0, rows, alpha, w)
    began = time.perf_counter()
    for _ in range(5):
        _sweep(X.indptr, X.indices, X.data, y, Q, 1.0, rows, alpha, w)
    return (time.perf_counter() - began) / (5 * X.nnz)


def model_seconds(
    found: Simulated, rounds: int, machines: int, nnz: float, n_features: int, ns: float, times: float = 1.0
) -> float:
    """A first pass from the disk, then rounds: sweeps, changes to the coordinator and their sum back, and waiting.

    Where there is a pool: its rows to the coordinator, sweeps over them, w there and back, and a look at all rows.
    times  as many rows as there are
    """
    seconds = 8.0 * times * nnz / machines / DISK
    look = times * nnz / machines * ns
    if machines == 1:
        return seconds + rounds * SWEEPS * look
    sent = min(found.sent_bytes * times, 4.0 * n_features)
    network = (machines * sent + ceil(log2(machines)) * 4.0 * n_features) / NETWORK + 2 * LATENCY
    for values, visited in found.pooled[:rounds]:
        seconds += SWEEPS * look + network
        if values:
            moved = 8.0 * times * values + machines * 8.0 * n_features
            seconds += moved / NETWORK + times * visited * ns + look + 4 * LATENCY
    return seconds


def run() -> Iterator[str]:
    """Lines of Markdown."""
    if not available("imdb.train"):
        yield "Not measured: the data is not available."
        return
    X, y = load_binary("imdb.train")
    X, y = X.tocsr().astype(np.float64), np.asarray(y, np.float64)
    ns = value_seconds(X, y)
    yield from prose(
        f"""imdb.train, {X.shape[0]:,} rows, hinge loss, C = 1, sigma = K, {SWEEPS} sweeps a round. Rounds come of the
        algorithm itself; seconds of a model: a pass at {DISK / 1e6:.0f} MB/s, {ns * 1e9:.1f} ns a value and sweep
        (measured in this run), {NETWORK / 1e9:.2f} GB/s into the coordinator and {LATENCY * 1e3:.0f} ms each way.
        *pooled*: the most rows in the pool, by their values. *x 1000*: the seconds of a thousand times as many rows, if
        rounds stay the same. No stragglers, no compiling. One core a machine, and one for the pool."""
    )
    seconds = "seconds to 1e-3", "to 1e-4", "x 1000, to 1e-3"
    yield from header("machines", "rounds to 1e-3", "to 1e-4", "sent a round", "pooled", *seconds, words=0)
    for machines in MACHINES:
        found = simulate(X, y, 1.0, machines)
        rounds = [found.rounds(target) for target in TARGETS]
        seconds = [known and model_seconds(found, known, machines, X.nnz, X.shape[1], ns) for known in rounds]
        many = rounds[0] and model_seconds(found, rounds[0], machines, X.nnz, X.shape[1], ns, 1000.0)
        yield line(
            machines, *(known or "-" for known in rounds), f"{found.sent_bytes / 1e6:.2g} MB",
            f"{max(values for values, _ in found.pooled) / X.nnz:.0%}",
            *(cell(known) for known in seconds), cell(many),
        )  # fmt: skip
    yield ""
    yield from _measured(X, y)
    yield ""
    yield from averaged(X, y)


def _measured(X: sparse.csr_matrix, y: Array) -> Iterator[str]:
    """Real nodes of this machine, beside the model of as many cores and of its memory as the network."""
    yield from prose(
        f"""On this machine, to 1e-4, beside the model: nodes share {usable_cores()} cores, and what they send goes
        through memory. *in rounds*: seconds from the end of the first round to that of the last; *job*: all of it."""
    )
    yield from header("machines", "rounds", "simulated", "in rounds, s", "model", "job, s", words=0)
    ns = value_seconds(X, y)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        work = Path(directory)
        dataset = ingested(work / "imdb", X, y)
        for machines in (2, 4):
            found = simulate(X, y, 1.0, machines)
            rounds = found.rounds(TARGETS[-1])
            share = max(1.0, machines / usable_cores())
            model = rounds and sum(
                (SWEEPS + (values > 0)) * X.nnz / machines * ns * share + visited * ns + 4 * LATENCY
                for values, visited in found.pooled[:rounds]
            )
            nodes = Nodes(work / f"nodes{machines}", machines)
            try:
                results, lines, seconds = trained(work, dataset, nodes, machines, "hinge", 1.0)
            finally:
                nodes.close()
            in_rounds = lines[-1]["elapsed_seconds"] - lines[0]["elapsed_seconds"]
            yield line(machines, results[0]["passes"], rounds or "-", *map(cell, (in_rounds, model, seconds)))


def averaged(X: sparse.csr_matrix, y: Array) -> Iterator[str]:
    """The mean of what machines find alone."""
    yield from prose(
        """The mean of what each machine finds alone, with C times K (`combine: "average"`): its primal objective
        above the optimum, after 100 sweeps each."""
    )
    yield from header("data", "C", *(f"K = {machines}" for machines in (2, 4, 8, 16)))
    data = {"imdb.train": (X, y)}
    if available("a9a"):
        A, labels = load_binary("a9a")
        data["a9a"] = A.tocsr().astype(np.float64), np.asarray(labels, np.float64)
    for name, (rows, labels) in data.items():
        for C in (0.01, 1.0):
            yield line(name, f"{C:g}", *(f"{_off(rows, labels, C, k, OPTIMA[name, C]):.1e}" for k in (2, 4, 8, 16)))


def _off(X: sparse.csr_matrix, y: Array, C: float, machines: int, optimum: float) -> float:
    Q = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    owner = np.random.default_rng(0).permutation(X.shape[0]) % machines
    mean = np.zeros(X.shape[1])
    for k in range(machines):
        rows, alpha, w = np.flatnonzero(owner == k), np.zeros(X.shape[0]), np.zeros(X.shape[1])
        for _ in range(100):
            _sweep(X.indptr, X.indices, X.data, y, Q, machines * C, rows, alpha, w)
        mean += w / machines
    P = mean @ mean / 2 + C * np.maximum(0.0, 1.0 - y * (X @ mean)).sum()
    return P / optimum - 1
