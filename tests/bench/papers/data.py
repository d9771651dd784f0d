"""The data the papers' experiments are done on: real sets, and text-like rows made up in any size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from tests.bench import jobs
from tests.bench.generate import generate, parse_size
from tests.bench.papers import acceptors
from tests.bench.prepared import prepare_generated
from tests.bench.real_data import Rows, is_there, rows_of, test_rows_of
from tests.contracts.problems import smallest_cache
from tests.reference.data import one_vs_rest

GENERATED_TEST_ROWS = 5000
_NAMES = {"imdb": "imdb.train", "skin": "skin_nonskin"}  # of tests.bench.real_data, where they differ


@dataclass(frozen=True)
class Data:
    """Rows as a dataset on disk and as arrays: X (n, d) float64 CSR, y (n,) of +1 and -1; test rows alike, or None."""

    name: str
    dataset: Path
    X: sparse.csr_matrix
    y: np.ndarray
    test: Rows | None

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.dataset)

    @property
    def known_as(self) -> str:
        """Its name in `tests.reference.optima`."""
        return _NAMES.get(self.name, self.name)

    @property
    def whole(self) -> int:
        """Bytes of a cache that holds all rows."""
        return jobs.whole(self.manifest)

    def primal(self, w: np.ndarray, C: float) -> float:
        """1/2 |w|^2 + C sum max(0, 1 - y_i <w, x_i>); w (d,)."""
        return float(w @ w / 2 + C * np.maximum(0.0, 1.0 - self.y * (self.X @ w)).sum())

    def accuracy(self, w: np.ndarray) -> float | None:
        """Share of the test rows on the right side."""
        return None if self.test is None else accuracy(self.test, w)


def accuracy(test: Rows, w: np.ndarray) -> float:
    """Share of the rows on the right side of w, which may lack the last features."""
    X, y = test
    return float(np.mean(np.where(X[:, : len(w)] @ w[: X.shape[1]] > 0, 1, -1) == y))


def read_in(directory: Path, name: str, text_size: str = "100MB") -> Data | None:
    """The set of this name as a shuffled dataset below `directory`; None: it is not available.

    text_size  of generated text, unless SIZE of the environment says otherwise
    """
    if name == "generated":
        return _generated(directory, text_size)
    found = real_rows(name)
    return found and _ingested(directory, name, *found[0], found[1])


def real_rows(name: str) -> tuple[Rows, Rows | None] | None:
    """Rows of a real set, and its test rows if it has some; None: it is not available."""
    if name == "celegans":
        return acceptors.acceptors() if acceptors.FILE.is_file() else None
    known = _NAMES.get(name, name)
    return (rows_of(known), test_rows_of(known)) if is_there(known) else None


def sorted_by_class(directory: Path, data: Data) -> Path:
    """The same rows sorted by class, as a dataset in just that order."""
    order = np.argsort(data.y, kind="stable")
    return jobs.ingested(directory / f"{data.name}-sorted", data.X[order], data.y[order], InputOptions(shuffle="no"))


def cache_for(manifest: Manifest, n_blocks: int) -> int:
    """Bytes of a cache that is sure to have room for any block of so many, however unequal its rows are."""
    return 3 * manifest.decoded_bytes // n_blocks + smallest_cache(manifest.longest_row)


def _ingested(directory: Path, name: str, X, y, test) -> Data:
    return Data(name, jobs.ingested(directory / name, X, y), X, y, test)


def _generated(directory: Path, text_size: str) -> Data:
    size = parse_size(os.environ.get("SIZE", text_size))
    X, y = prepare_generated(directory / "text", size).load()
    return _ingested(directory, "generated", X.astype(np.float64), y, generated_test(directory))


def generated_test(directory: Path) -> Rows:
    """Test rows like those of generated text; their text goes below `directory`."""
    generate(directory / "test.svm", rows=GENERATED_TEST_ROWS, test=True)
    X, y = load_svmlight_file(str(directory / "test.svm"), zero_based=False)
    return X, one_vs_rest(y > 0, True)
