"""scikit-learn's `Nystroem` and `LinearSVC`, as far as they come in given seconds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import LinearSVC

from tests.bench.machines.data import Problem
from tests.bench.machines.machine import accuracy_of
from tests.bench.usage import Spent, Stopwatch, own_core_seconds

ITERATIONS = (1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True)
class Fitted:
    """
    seconds, core_seconds  of both steps
    objective              P: the map keeps inner products, so |w|^2 is |f|^2 of the f that it makes
    """

    seconds: float
    core_seconds: float | None
    objective: float
    accuracy: float


def fit_within(own: Problem, components: int, most_seconds: float, seed: int) -> Fitted:
    """The run of most iterations that ended in time; that of fewest, if none did."""
    X = own.X.astype(np.float64)  # of single precision the map would keep inner products to 1e-3 only
    watch = Stopwatch(own_core_seconds)
    features = Nystroem(gamma=own.gamma, n_components=components, random_state=seed)
    mapped = features.fit_transform(X)
    mapping = watch.total()
    best, best_spent = None, mapping
    for iterations in ITERATIONS:
        watch.lap()
        model, converged = _fitted(own, mapped, iterations, seed)
        spent = mapping + watch.lap()
        if best is None or spent.seconds <= most_seconds:
            best, best_spent = model, spent
        if converged or _next_is_too_long(spent, mapping, most_seconds):
            break
    assert best is not None
    return _judged(own, best.coef_[0], mapped, features, best_spent)


def _fitted(own: Problem, mapped: np.ndarray, iterations: int, seed: int) -> tuple[LinearSVC, bool]:
    model = LinearSVC(
        C=own.C, loss="hinge", dual=True, fit_intercept=False, max_iter=iterations, random_state=seed, tol=1e-4
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(mapped, own.y)
    return model, model.n_iter_ < iterations


def _next_is_too_long(spent: Spent, mapping: Spent, most_seconds: float) -> bool:
    """Three times the iterations take up to three times as long; twice as long at least, for shrinking."""
    return mapping.seconds + 2 * (spent.seconds - mapping.seconds) > most_seconds


def _judged(own: Problem, w: np.ndarray, mapped: np.ndarray, features: Nystroem, spent: Spent) -> Fitted:
    losses = np.maximum(0.0, 1.0 - own.y * (mapped @ w)).sum()
    accuracy = accuracy_of(features.transform(own.X_test) @ w, own.y_test)
    return Fitted(spent.seconds, spent.core_seconds, float(w @ w / 2 + own.C * losses), accuracy)
