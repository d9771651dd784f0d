"""Fits of peers, each in a process of its own that is killed when its core seconds are over.

python -m tests.bench.convergence.peer FILE.npz SECONDS

reads problems, a line of JSON each with peer and C, and answers each by a line: core seconds, whether the peer said
that it had not converged, and w (with the weight of the bias last); or `error`; or nothing but {} once SECONDS are
over. Each fit is forked, for libraries take longer to load than many fits. The loss is hinge, and there is a bias.
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
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

PEERS = ("LIBLINEAR", "scikit-learn")


def fit(X: sparse.csr_matrix, y: np.ndarray, peer: str, C: float) -> tuple[float, bool, list]:
    """Core seconds, whether it warned, w."""
    return by_liblinear(X, y, C) if peer == "LIBLINEAR" else by_scikit_learn(X, y, C)


def by_scikit_learn(X: sparse.csr_matrix, y: np.ndarray, C: float) -> tuple[float, bool, list]:
    """LinearSVC at its defaults. It penalises its intercept, as the bias here."""
    model = LinearSVC(C=C, loss="hinge", dual=True)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.process_time() - began
    w = [*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist()]
    return seconds, any(issubclass(each.category, ConvergenceWarning) for each in told), w


def by_liblinear(X: sparse.csr_matrix, y: np.ndarray, C: float) -> tuple[float, bool, list]:
    """Its dual solver, its -e at its default. It writes a warning to nobody who is quiet."""
    problem = binding.problem(y, X)  # train() adds the bias that the parameter has, and takes away any other
    parameter = binding.parameter(f"-s 3 -c {C!r} -B 1 -q")
    began = time.process_time()
    model = liblinearutil.train(problem, parameter)
    seconds = time.process_time() - began
    w = np.ctypeslib.as_array(model.w, (problem.n,)).copy()
    return seconds, False, (w if model.get_labels()[0] > 0 else -w).tolist()


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
