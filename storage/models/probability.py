"""Turns decision values f into probabilities: P(f) = 1 / (1 + exp(A f + B)), with a pair (A, B) for each class.

`fit_sigmoid` fits A and B by Platt's method, to decision values of rows that the model was not trained on:

    minimise over A, B    F = - sum_i s_i [t_i log p_i + (1 - t_i) log(1 - p_i)],    p_i = 1 / (1 + exp(A f_i + B))

s_i is the weight of row i. t_i is (N+ + 1) / (N+ + 2) for positive rows and 1 / (N- + 2) for negative rows, where N+
and N- are the sums of their weights: F then has a minimum even if the classes do not overlap. Newton's method with
backtracking: Lin, Lin and Weng, "A note on Platt's probabilistic outputs for support vector machines", Machine Learning
68 (2007), Algorithm 1.
"""

import math

import numpy as np

from streamsvm.storage.rows.csr import Array

Sigmoid = tuple[tuple[float, float], ...]
# The pair (A, B) of logistic regression: P = 1 / (1 + exp(-f)).
LOGISTIC = (-1.0, 0.0)
_MOST_STEPS = 100
_LEAST_STEP = 1e-10
_ENOUGH = 1e-4  # share of the decrease predicted by the slope that a step has to reach (Armijo)
_RIDGE = 1e-12  # relative: the Hessian is singular if all decision values are equal
_ROUNDING = 1e-13  # relative rounding error of F
# Bound on the slope along Newton's step. Unlike the paper's bound on the gradient, it is independent of the scale of f.
_TOLERANCE = 1e-16


def has_log_odds(loss: str | None) -> bool:
    """Return whether decision values of models with this loss are log odds; losses themselves are above this package.

    A model's record names its loss. `has_probabilities` of each loss says the same.
    """
    return loss == "logistic"


def falling(z: Array) -> Array:
    """Return 1 / (1 + exp(z)), precise for large |z| of either sign, and without overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z > 0, small, 1.0) / (1.0 + small)


def probabilities(decision_values: Array, sigmoid: Sigmoid) -> Array:
    """Return the probabilities (n_rows, n_classes) of the classes; each row sums to 1.

    decision_values  (n_rows,) for two classes, > 0 for the first class; else (n_rows, n_classes)
    sigmoid          one pair for two classes; for more classes, one pair each: probabilities are divided by their sum,
                     as in scikit-learn and LIBLINEAR; if all are 0, all classes get the same probability
    """
    A, B = np.array(sigmoid).T
    if decision_values.ndim == 1:
        z = A[0] * decision_values + B[0]
        return np.stack([falling(z), falling(-z)], axis=1)
    shares = falling(A * decision_values + B)
    total = shares.sum(axis=1, keepdims=True)
    even = np.full_like(shares, 1.0 / shares.shape[1])
    return np.divide(shares, total, out=even, where=total > 0)


def fit_sigmoid(decision_values: Array, positive: Array, weight: Array | None = None) -> tuple[float, float]:
    """Fit (A, B) to the decision values (n_rows,) of one class, finite float64.

    positive  (n_rows,) bool: the row belongs to the class
    weight    (n_rows,) weights of rows; None: each row has weight 1
    """
    s = np.ones(len(positive)) if weight is None else weight
    n_positive, n_negative = float(s[positive].sum()), float(s[~positive].sum())
    t = np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))
    scale = float(np.abs(decision_values).max(initial=0.0)) or 1.0
    f = decision_values / scale
    AB = np.array([0.0, math.log((n_negative + 1.0) / (n_positive + 1.0))])
    for _ in range(_MOST_STEPS):
        gradient, hessian = _derivatives(AB, f, t, s)
        step = np.linalg.solve(hessian, -gradient)
        slope = float(gradient @ step)
        if -slope <= _TOLERANCE:
            break
        AB = AB + _length(AB, step, slope, f, t, s) * step
    return float(AB[0]) / scale, float(AB[1])


def _length(AB: Array, step: Array, slope: float, f: Array, t: Array, s: Array) -> float:
    """Return the factor of the step: the largest of 1, 1/2, 1/4 ... for which F falls enough; 0 if there is none."""
    before, length = _objective(AB, f, t, s), 1.0
    while length > _LEAST_STEP:
        if _objective(AB + length * step, f, t, s) <= before + _ENOUGH * length * slope + _ROUNDING * before:
            return length
        length /= 2.0
    return 0.0


def _objective(AB: Array, f: Array, t: Array, s: Array) -> float:
    z = AB[0] * f + AB[1]
    return float(np.sum(s * (t * z + np.logaddexp(0.0, -z))))


def _derivatives(AB: Array, f: Array, t: Array, s: Array) -> tuple[Array, Array]:
    """Return the gradient (2,) and the Hessian (2, 2) of F at AB = (A, B)."""
    p = falling(AB[0] * f + AB[1])
    first, second = s * (t - p), s * p * (1.0 - p)
    cross, corner = second @ f, second.sum()
    hessian = np.array([[second @ (f * f), cross], [cross, corner]]) + _RIDGE * corner * np.eye(2)
    return np.array([first @ f, first.sum()]), hessian
