"""Sets gamma of a Gaussian kernel, and measures on rows of the dataset whether it tells rows from each other."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import Array, Rows
from streamsvm.trainer.solvers import SOLVERS

# Rows are stored in random order, so the first ones are a sample. Small data are looked at as a whole.
_MOST_VALUES = 1 << 24
_ROWS_COMPARED = 400
_SHARES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Distances:
    """Squared distances of some rows from each other that 5, 50 and 95% of all are below, and gamma."""

    gamma: float
    low: float
    median: float
    high: float

    @property
    def view(self) -> dict[str, Any]:
        """A dictionary, for JSON."""
        return asdict(self)


class _Sample(NamedTuple):
    """Rows X (n, width) float32, and their weights (n,); None: they have none."""

    X: sp.csr_matrix
    weight: Array | None


def distances_of(spec: JobSpec, dataset: Path) -> Distances | None:
    """Measure distances for a job on the dataset in this directory; None: its solver has no kernel."""
    if not SOLVERS[spec.solver].has_kernel:
        return None
    own = Dataset(dataset)
    gamma = _scale(own) if isinstance(spec.gamma, str) else spec.gamma
    rows = _sample(own, _MOST_VALUES, _ROWS_COMPARED).X.astype(np.float64)
    inner = (rows @ rows.T).toarray()
    norms = inner.diagonal()
    upper = np.triu_indices(len(norms), 1)
    found = np.maximum(norms[:, None] + norms - 2.0 * inner, 0.0)[upper]
    return Distances(gamma, *(np.quantile(found, _SHARES).tolist() if len(found) else (0.0,) * 3))


def _scale(dataset: Dataset) -> float:
    """scikit-learn's 1 / (features x variance of all values), of a random part of the rows where they are many.

    Values of a row of weight k count as those of k rows.
    """
    X, weight = _sample(dataset, _MOST_VALUES)
    n_features = dataset.manifest.n_features
    n_values = max(1, (X.shape[0] if weight is None else float(weight.sum())) * n_features)
    values = X.data.astype(np.float64)
    weighed = values if weight is None else np.repeat(weight, np.diff(X.indptr)) * values
    variance = float(values @ weighed) / n_values - (float(weighed.sum()) / n_values) ** 2
    return 1.0 / (n_features * variance) if variance > 0.0 else 1.0


def _sample(dataset: Dataset, most_values: int, most_rows: int | None = None) -> _Sample:
    """The first rows as they are stored: whole pieces up to so many values, or so many rows."""
    parts: list[Any] = []
    weights: list[Array] = []
    n_values = n_rows = 0
    for rows in _stored_rows(dataset):
        indptr: Array = rows.indptr
        parts.append(sp.csr_matrix((rows.values, rows.indices, indptr), (len(rows), dataset.manifest.width)))
        weights.append(np.ones(len(rows)) if rows.weight is None else rows.weight)
        n_values, n_rows = n_values + rows.nnz, n_rows + len(rows)
        if n_values >= most_values or (most_rows is not None and n_rows >= most_rows):
            break
    weight = None if dataset.manifest.weights is None else np.concatenate(weights)[:most_rows]
    return _Sample(sp.vstack(parts, "csr")[:most_rows], weight)


def _stored_rows(dataset: Dataset) -> Iterator[Rows]:
    for number in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(number):
            yield dataset.piece(location).rows
