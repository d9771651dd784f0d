"""StreamSVM's two loops as printed, on data in memory: what the solver `streamsvm_paper` is held to.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, Algorithms 1 (reader)
and 2 (trainer). The loops take turns here: the trainer makes `updates_per_row` picks for each row that the reader
reads. Hinge loss, no bias; see `dcd` for the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse

BETA = 0.9


@dataclass(frozen=True)
class Scan:
    """The state after a scan: `alpha` (n_rows,) and `w` (n_features,) are copies.

    epsilon    |G| from which on a row at its bound is given up
    cached     rows in the cache
    unvisited  rows that the scan read and whose pick the trainer never made
    """

    alpha: np.ndarray
    w: np.ndarray
    epsilon: float
    cached: int
    unvisited: int


def streamsvm(
    X: sparse.csr_matrix,
    y: np.ndarray,
    C: float,
    capacity: int,
    updates_per_row: int,
    epsilon: float = np.inf,
    seed: int = 0,
    n_pieces: int = 1,
) -> Iterator[Scan]:
    """Yield after each scan, for ever; `capacity` is Omega, the rows that the cache has room for.

    The order of rows is random, and the same in each scan, as printed. With `n_pieces` each scan takes as many pieces
    of the file in an order of its own, as the reader does.
    """
    rng = np.random.default_rng(seed)
    n_rows = len(y)
    alpha, w = np.zeros(n_rows), np.zeros(X.shape[1])
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    cache, place = np.empty(capacity, np.int64), np.full(n_rows, -1)
    # rows in the cache, picks since eps was set; eps, eps_new
    counts, rule = np.zeros(2, np.int64), np.array([epsilon, 0.0])
    pieces = np.array_split(rng.permutation(n_rows), n_pieces)
    while True:
        visited = np.zeros(n_rows, bool)
        file = np.concatenate([pieces[k] for k in rng.permutation(n_pieces)])
        one_scan(
            file, X.indptr, X.indices, X.data, y, Qii, C, updates_per_row, int(rng.integers(1 << 32)),
            alpha, w, cache, place, counts, rule, visited,
        )  # fmt: skip
        yield Scan(alpha.copy(), w.copy(), float(rule[0]), int(counts[0]), int(np.count_nonzero(~visited)))


@njit(cache=True)
def one_scan(
    file, indptr, indices, data, y, Qii, C, updates_per_row, seed,
    alpha, w, cache, place, counts, rule, visited,
):  # fmt: skip
    """Read all rows once. `cache` (capacity,) lists the rows of the cache, `place` (n_rows,) their places or -1."""
    np.random.seed(seed)
    for i in file:
        # Algorithm 1
        if place[i] < 0:
            if counts[0] == len(cache):
                evict(cache[np.random.randint(counts[0])], cache, place, counts)
            cache[counts[0]], place[i] = i, counts[0]
            counts[0] += 1
        # Algorithm 2
        for _ in range(updates_per_row):
            if counts[0] == 0:
                break
            trainer_step(indptr, indices, data, y, Qii, C, alpha, w, cache, place, counts, rule, visited)


@njit(cache=True)
def trainer_step(indptr, indices, data, y, Qii, C, alpha, w, cache, place, counts, rule, visited):
    """One turn of the trainer's inner loop."""
    if counts[1] == len(y):
        rule[0], counts[1] = rule[1], 0
    counts[1] += 1
    if counts[0] > 0.9 * len(cache):
        rule[0] *= BETA
    i = cache[np.random.randint(counts[0])]
    visited[i] = True
    margin = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        margin += w[indices[k]] * data[k]
    G = y[i] * margin - 1.0
    if (alpha[i] == 0.0 and rule[0] < G) or (alpha[i] == C and -rule[0] > G):
        evict(i, cache, place, counts)
        return
    rule[1] = max(rule[1], abs(G))
    new = min(max(alpha[i] - G / Qii[i], 0.0), C) if Qii[i] > 0.0 else C
    for k in range(indptr[i], indptr[i + 1]):
        w[indices[k]] += (new - alpha[i]) * y[i] * data[k]
    alpha[i] = new


@njit(cache=True)
def evict(i, cache, place, counts):
    """Row i leaves; the last row of the list takes its place."""
    counts[0] -= 1
    last = cache[counts[0]]
    cache[place[i]], place[last] = last, place[i]
    place[i] = -1
