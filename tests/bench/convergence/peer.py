"""One fit of a peer, in a process of its own that may be killed.

python -m tests.bench.convergence.peer FILE.npz PEER LOSS C BIAS

Prints a JSON object: seconds, whether it said that it had not converged, and w (with the weight of the bias last).
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from liblinear import liblinear as binding
from liblinear import liblinearutil
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

EPSILON = 0.1
_LIBLINEARS = {
    "hinge": 3, "squared_hinge": 1, "logistic": 7, "epsilon_insensitive": 13, "squared_epsilon_insensitive": 12,
}  # fmt: skip
MORE = 100  # times the iterations that are a peer's default
_MORE = f", {MORE} times its iterations"
PEERS = ("LIBLINEAR", "scikit-learn", f"scikit-learn{_MORE}", "Snap ML", f"Snap ML{_MORE}")


def solves(peer: str, loss: str, bias: bool) -> bool:
    """Whether the peer has this problem: Snap ML has no regression, LogisticRegression does not penalise the bias."""
    if peer.startswith("Snap ML"):
        return not loss.endswith("epsilon_insensitive")
    return peer == "LIBLINEAR" or not (bias and loss == "logistic")


def scikit_learn(loss: str, C: float, bias: bool, times: int) -> BaseEstimator:
    """Its estimator of this problem at its defaults, but for the iterations."""
    if loss == "logistic":
        return LogisticRegression(C=C, fit_intercept=bias, max_iter=100 * times)
    if loss.endswith("epsilon_insensitive"):
        return LinearSVR(C=C, loss=loss, epsilon=EPSILON, fit_intercept=bias, max_iter=1000 * times, dual=True)
    return LinearSVC(C=C, loss=loss, fit_intercept=bias, max_iter=1000 * times, dual=True)


def snap_ml(loss: str, C: float, bias: bool, times: int) -> BaseEstimator:
    """Its estimator of this problem at its defaults, but for the iterations; its regularizer is 1/C."""
    with warnings.catch_warnings():
        # It asks numpy for AVX2 in a place that is deprecated: were the warning an error, it would do without.
        warnings.simplefilter("ignore", DeprecationWarning)
        import snapml  # noqa: PLC0415

    if loss == "logistic":
        return snapml.LogisticRegression(regularizer=1 / C, fit_intercept=bias, max_iter=1000 * times)
    return snapml.SupportVectorMachine(loss=loss, regularizer=1 / C, fit_intercept=bias, max_iter=1000 * times)


def fit(X: sparse.csr_matrix, y: np.ndarray, peer: str, loss: str, C: float, bias: bool) -> tuple[float, bool, list]:
    """Seconds, whether it warned, w."""
    if peer == "LIBLINEAR":
        return by_liblinear(X, y, loss, C, bias)
    make = snap_ml if peer.startswith("Snap ML") else scikit_learn
    model = make(loss, C, bias, MORE if peer.endswith(_MORE) else 1)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.perf_counter() - began
    w = np.ravel(model.coef_).tolist() + (np.ravel(model.intercept_).tolist() if bias else [])
    return seconds, any(issubclass(each.category, ConvergenceWarning) for each in told), w


def by_liblinear(X: sparse.csr_matrix, y: np.ndarray, loss: str, C: float, bias: bool) -> tuple[float, bool, list]:
    """LIBLINEAR's own dual solver of the loss, its -e at its default. It writes a warning to nobody who is quiet."""
    problem = binding.problem(y, X, 1.0 if bias else -1.0)
    parameter = binding.parameter(f"-s {_LIBLINEARS[loss]} -c {C!r} -p {EPSILON} -q")
    began = time.perf_counter()
    model = liblinearutil.train(problem, parameter)
    seconds = time.perf_counter() - began
    w = np.ctypeslib.as_array(model.w, (problem.n,)).copy()
    is_turned = not loss.endswith("epsilon_insensitive") and model.get_labels()[0] < 0
    return seconds, False, (-w if is_turned else w).tolist()


if __name__ == "__main__":
    file, peer_, loss_, C_, bias_ = sys.argv[1:]
    with np.load(file) as arrays:
        rows = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), tuple(arrays["shape"]))
        seconds_, warned, w_ = fit(rows, arrays["y"], peer_, loss_, float(C_), bias_ == "1")
    print(json.dumps({"seconds": seconds_, "warned": warned, "w": w_}))
