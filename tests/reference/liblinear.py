"""The real LIBLINEAR (package liblinear-official) behind a few functions: train, load a model file."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from liblinear import liblinear as binding
from liblinear import liblinearutil
from scipy import sparse

from tests.reference.dcd import primal_objective

SOLVERS = {"hinge": 3, "squared_hinge": 1}


@dataclass(frozen=True)
class Trained:
    """What LIBLINEAR found: ``w`` (n_features,) is positive towards the larger label; ``seconds`` of training alone."""

    w: np.ndarray
    primal: float
    seconds: float


def train(
    X: sparse.csr_matrix,
    y: np.ndarray,
    C: float,
    *,
    eps: float = 0.1,
    loss: str = "hinge",
    bias: float = -1.0,
    solver: int | None = None,
) -> Trained:
    """Train with -s 3 (hinge) or -s 1 (squared hinge) on two labels, data in memory, quietly.

    ``eps`` is LIBLINEAR's -e (its default is 0.1). The clock leaves out the conversion to LIBLINEAR's own layout.
    ``bias`` >= 0 is its -B: ``w`` then has one entry more. ``solver`` is another -s, of the same loss. LIBLINEAR gives
    up after 300 passes (hinge) whatever eps.
    """
    ctypes.CDLL(None).srand(1)  # it draws from the process's one generator: what ran before would matter
    problem = binding.problem(np.asarray(y, float), sparse.csr_matrix(X, copy=True), bias)
    parameter = binding.parameter(f"-s {solver or SOLVERS[loss]} -c {C!r} -e {eps!r} -B {bias!r} -q")
    start = time.perf_counter()
    model = liblinearutil.train(problem, parameter)
    seconds = time.perf_counter() - start
    w = np.ctypeslib.as_array(model.w, (problem.n,)).copy()
    larger = max(model.get_labels())
    if model.get_labels()[0] != larger:
        w = -w
    if bias >= 0.0:
        X = sparse.hstack([X, np.full((X.shape[0], 1), bias)]).tocsr()
    return Trained(w, primal_objective(X, np.where(y == larger, 1.0, -1.0), w, C, loss), seconds)


def train_crammer_singer(
    X: sparse.csr_matrix, own: np.ndarray, C: float, *, eps: float = 0.1, class_weights: Sequence[float] = ()
) -> np.ndarray:
    """Train with -s 4 on classes 0 to n - 1, each with a row at least, without bias: w, (n_features, n_classes).

    ``class_weights`` multiply C, by class.
    """
    weights = " ".join(f"-w{place} {weight!r}" for place, weight in enumerate(class_weights))
    problem = binding.problem(np.asarray(own, float), sparse.csr_matrix(X, dtype=float, copy=True), -1.0)
    model = liblinearutil.train(problem, binding.parameter(f"-s 4 -c {C!r} -e {eps!r} {weights} -q"))
    w = np.ctypeslib.as_array(model.w, (problem.n * model.get_nr_class(),)).reshape(problem.n, -1).copy()
    return w[:, np.argsort(model.get_labels())]


def liblinear_predict(
    model_path: str | os.PathLike[str], csr: sparse.csr_matrix, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(predicted labels (n_rows,), decision values (n_rows,) or (n_rows, n_classes)) of a model file.

    LIBLINEAR's own loader and predictor do it. ``labels``, when given, must be as many as the rows; they do not change
    the result. Decision values have LIBLINEAR's orientation: of two classes, positive means the file's first label.
    """
    model = liblinearutil.load_model(os.fspath(model_path))
    if model is None:
        raise ValueError(f"LIBLINEAR cannot load the model file {os.fspath(model_path)}")
    if labels is not None and len(labels) != csr.shape[0]:
        raise ValueError(f"{len(labels)} labels for {csr.shape[0]} rows")
    csr = sparse.csr_matrix(csr, copy=True)
    csr.resize(csr.shape[0], model.get_nr_feature())  # the bias comes right after the last feature of the model
    problem = binding.problem(np.zeros(csr.shape[0]), csr, model.bias)
    n_classes = model.get_nr_class()
    values = np.empty((csr.shape[0], 1 if n_classes <= 2 else n_classes))
    predicted = np.empty(csr.shape[0])
    room = values.shape[1] * values.itemsize
    out = (ctypes.c_double * values.shape[1])()
    for i in range(csr.shape[0]):
        predicted[i] = binding.liblinear.predict_values(model, problem.x[i], out)
        ctypes.memmove(values.ctypes.data + i * room, out, room)
    return predicted, values[:, 0] if n_classes <= 2 else values
