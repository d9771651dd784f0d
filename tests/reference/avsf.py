"""AVSF and the loop it is compared with, as printed, on data in memory: what the solver `avsf` is held to.

Glasmachers, Dogan, "Accelerated linear SVM training with adaptive variable selection frequencies" (2013): Algorithm 2
(LIBLINEAR's loop) is `dcd`; here are Algorithms 3, 4 and 5. Hinge loss, no bias; see `dcd` for the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse

ADAPTATION, LEAST, MOST = 0.2, 1 / 20, 20.0


@dataclass(frozen=True)
class Sweep:
    """After a sweep: steps so far, the spread of the projected gradients that it met, and whether it ends the run."""

    steps: int
    distance: float
    is_last: bool


def avsf(X: sparse.csr_matrix, y: np.ndarray, C: float, eps: float, seed: int = 0) -> Iterator[Sweep]:
    """Algorithm 3: yields after each sweep until it stops."""
    n = len(y)
    alpha, w, p = np.zeros(n), np.zeros(X.shape[1]), np.ones(n)
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    rng, can_stop, reference, steps, first = np.random.default_rng(seed), True, np.zeros(1), 0, True
    while True:
        schedule = np.repeat(np.arange(n), visits(p, rng.random(n)))
        rng.shuffle(schedule)
        above, below = sweep(schedule, X.indptr, X.indices, X.data, y, Qii, C, alpha, w, p, reference, first)
        steps += len(schedule)
        first = False
        is_last = above - below < eps and can_stop
        yield Sweep(steps, above - below, is_last)
        if is_last:
            return
        can_stop = above - below < eps
        if can_stop:
            p[:] = 1.0


@njit(cache=True)
def visits(p, chances):
    """Algorithm 4: how often each row is visited in a sweep, len(p) visits together; `chances` from 0 to 1."""
    n, total, given = len(p), p.sum(), 0
    found = np.zeros(n, np.int64)
    for i in range(n):
        m = p[i] * (n - given) / total
        found[i] = int(m) + int(chances[i] < m - int(m))
        if total - p[i] < 1e-6:
            found[i] = n - given
        given += found[i]
        total -= p[i]
    return found


@njit(cache=True)
def sweep(schedule, indptr, indices, data, y, Qii, C, alpha, w, p, reference, is_first):
    """The loop of Algorithm 3 over `schedule`, with Algorithm 5: returns M+ and M-."""
    n = len(y)
    above, below = -np.inf, np.inf
    for i in schedule:
        margin = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            margin += w[indices[k]] * data[k]
        G = y[i] * margin - 1.0
        PG = min(G, 0.0) if alpha[i] == 0.0 else max(G, 0.0) if alpha[i] == C else G
        above, below = max(above, PG), min(below, PG)
        gain = 0.0
        if PG != 0.0:
            new = min(max(alpha[i] - G / Qii[i], 0.0), C) if Qii[i] > 0.0 else C
            mu = new - alpha[i]
            gain = -mu * (G + mu * Qii[i] / 2)
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] += mu * y[i] * data[k]
            alpha[i] = new
        if is_first:
            reference[0] += gain / n
        else:
            p[i] = min(max(p[i] * np.exp(ADAPTATION * (gain / reference[0] - 1.0)), LEAST), MOST)
            reference[0] = (1 - 1 / n) * reference[0] + gain / n
    return above, below
