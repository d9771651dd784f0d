"""Fits of peers, each in a process of its own that is killed when its core seconds are over.

python -m tests.bench.convergence.peer FILE.npz SECONDS

reads problems, a line of JSON each with peer, loss, C and bias, and answers each by a line: core seconds, whether the
peer said that it had not converged, and w (with the weight of the bias last); or `error`; or nothing but {} once
SECONDS are over. Each fit is forked, for libraries take longer to load than many fits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from typing import Any

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
    """Core seconds, whether it warned, w."""
    if peer == "LIBLINEAR":
        return by_liblinear(X, y, loss, C, bias)
    make = snap_ml if peer.startswith("Snap ML") else scikit_learn
    model = make(loss, C, bias, MORE if peer.endswith(_MORE) else 1)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.process_time() - began
    w = np.ravel(model.coef_).tolist() + (np.ravel(model.intercept_).tolist() if bias else [])
    return seconds, any(issubclass(each.category, ConvergenceWarning) for each in told), w


def by_liblinear(X: sparse.csr_matrix, y: np.ndarray, loss: str, C: float, bias: bool) -> tuple[float, bool, list]:
    """LIBLINEAR's own dual solver of the loss, its -e at its default. It writes a warning to nobody who is quiet."""
    problem = binding.problem(y, X)  # train() adds the bias that the parameter has, and takes away any other
    parameter = binding.parameter(f"-s {_LIBLINEARS[loss]} -c {C!r} -p {EPSILON} -B {1 if bias else -1} -q")
    began = time.process_time()
    model = liblinearutil.train(problem, parameter)
    seconds = time.process_time() - began
    w = np.ctypeslib.as_array(model.w, (problem.n,)).copy()
    is_turned = not loss.endswith("epsilon_insensitive") and model.get_labels()[0] < 0
    return seconds, False, (-w if is_turned else w).tolist()


def answer(X: sparse.csr_matrix, y: np.ndarray, problem: dict[str, Any], seconds: float) -> str:
    """A line about one problem, by a child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        # Its signal ends a process that does not handle it, within C code, too.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        os.write(writing, _fitted(X, y, problem).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answered:
        line = answered.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return json.dumps({} if os.WTERMSIG(status) == signal.SIGPROF else {"error": f"signal {os.WTERMSIG(status)}"})
    return line


def _fitted(X: sparse.csr_matrix, y: np.ndarray, problem: dict[str, Any]) -> str:
    try:
        seconds, warned, w = fit(X, y, **problem)
    except Exception as error:  # whatever a peer raises is its result
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
    return json.dumps({"seconds": seconds, "warned": warned, "w": w})


if __name__ == "__main__":
    file, most_seconds = sys.argv[1:]
    with np.load(file) as arrays:
        rows = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), tuple(arrays["shape"]))
        labels = arrays["y"]
    binding.problem(labels[:1], rows[:1], -1.0)  # compiles what the binding converts rows with, once for all children
    for asked in sys.stdin:
        print(answer(rows, labels, json.loads(asked), float(most_seconds)), flush=True)
