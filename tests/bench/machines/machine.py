"""A kernel machine that a job has left behind: its decision values, its objective, its accuracy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.decision import KernelMachine, squared_norm
from streamsvm.storage.models.support_vectors import SupportVectors, published_machine
from streamsvm.storage.rows.csr import INDEX, VALUE, Rows
from tests.bench.usage import CORES


@dataclass(frozen=True)
class Machine:
    """f(x) = sum_s beta_s k(z_s, x); the vectors' features are numbered as the columns of the rows it is asked of."""

    vectors: SupportVectors
    beta: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def decision_values(self, X: sparse.csr_matrix) -> np.ndarray:
        """f(x_i), (n,), on all cores; X (n, d) CSR, its indices ascending in a row."""
        machine = KernelMachine(self.vectors, self.beta)
        bounds = np.linspace(0, X.shape[0], CORES + 1).astype(int)
        parts = [rows_of(X[begin:end]) for begin, end in pairwise(bounds.tolist())]
        with ThreadPoolExecutor(CORES) as pool:
            return np.concatenate(list(pool.map(machine.decision_values, parts)))

    def primal(self, X: sparse.csr_matrix, y: np.ndarray, C: float) -> float:
        """1/2 |f|^2 + C sum max(0, 1 - y_i f(x_i)); y (n,) of +1 and -1."""
        losses = np.maximum(0.0, 1.0 - y * self.decision_values(X)).sum()
        return squared_norm(self.vectors, self.beta) / 2 + C * float(losses)

    def accuracy(self, X: sparse.csr_matrix, y: np.ndarray) -> float:
        """Share of the rows on the right side."""
        return accuracy_of(self.decision_values(X), y)


def accuracy_of(decision_values: np.ndarray, y: np.ndarray) -> float:
    """Share of the rows that their decision values (n,) put on the side of y (n,) of +1 and -1."""
    return float(np.mean(np.where(decision_values > 0, 1.0, -1.0) == y))


def rows_of(X: sparse.csr_matrix) -> Rows:
    """X as the kernels take it, without labels."""
    return Rows(np.zeros(X.shape[0]), X.indptr.astype(np.int64), X.indices.astype(INDEX), X.data.astype(VALUE))


def machine_of(run: Path, dataset: Path) -> Machine:
    """What the job in this run directory has published, its features as columns from 0 on, as scipy has them."""
    own = Dataset(dataset)
    machine = published_machine(run)
    vectors, manifest = machine.vectors, own.manifest
    columns = own.numbers[vectors.indices] - manifest.index_base
    return Machine(vectors.renumbered(columns, manifest.n_features), machine.beta)
