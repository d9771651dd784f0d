"""The real LIBSVM: package libsvm-official, and Debian's program svm-predict (libsvm-tools)."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from libsvm import svm as binding
from libsvm import svmutil
from scipy import sparse

_NODE = np.dtype([("index", np.int32), ("value", np.float64)], align=True)
has_program = pytest.mark.skipif(shutil.which("svm-predict") is None, reason="needs svm-predict: make libsvm")


def svm_train(y: np.ndarray, X: sparse.csr_matrix, options: str, path: str | os.PathLike[str]) -> None:
    """Train, and let it write its model."""
    model = svmutil.svm_train(np.asarray(y, float), sparse.csr_matrix(X, dtype=float, copy=True), f"{options} -q")
    svmutil.svm_save_model(os.fspath(path), model)


def libsvm_predict(path: str | os.PathLike[str], X: sparse.csr_matrix, base: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(labels (n_rows,), decision values (n_rows,)) of a model file of two classes, column 0 of X being feature `base`.

    A value above 0 means the file's first label.
    """
    model = svmutil.svm_load_model(os.fspath(path))
    if model is None:
        raise ValueError(f"LIBSVM cannot load the model file {os.fspath(path)}")
    X = sparse.csr_matrix(X, dtype=float).sorted_indices()
    labels, values, out = np.empty(X.shape[0]), np.empty(X.shape[0]), (ctypes.c_double * 1)()
    for i, (begin, end) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True)):
        nodes = np.full(end - begin + 1, -1, _NODE)  # the last one says that it is the last
        nodes["index"][:-1], nodes["value"][:-1] = X.indices[begin:end] + base, X.data[begin:end]
        row = nodes.ctypes.data_as(ctypes.POINTER(binding.svm_node))
        labels[i] = binding.libsvm.svm_predict_values(model, row, out)
        values[i] = out[0]
    return labels, values


def program_predict(model: Path, rows: bytes, *options: str) -> list[list[float]]:
    """What svm-predict writes of LIBSVM text, a list of numbers a line, without the head that `-b 1` has."""
    text, found = model.with_suffix(".rows"), model.with_suffix(".out")
    text.write_bytes(rows)
    command = ["svm-predict", *options, str(text), str(model), str(found)]
    subprocess.run(command, check=True, capture_output=True)
    return [list(map(float, line.split())) for line in found.read_text().splitlines() if not line.startswith("labels")]
