"""The data the papers' experiments are done on: real sets, and text-like rows made up in any size."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from tests.bench.generate import generate, parse_size
from tests.bench.papers import acceptors
from tests.bench.papers.raw_codec import raw_codec
from tests.bench.prepared import prepare_generated
from tests.contracts.problems import smallest_cache
from tests.reference.data import DATA, available, load, load_binary, one_vs_rest, write_libsvm

GENERATED_TEST_ROWS = 5000
_SKIN = DATA / "skin_nonskin.tsv.zst"
# name -> file of tests.reference.data
_FILES = {"a9a": "a9a", "imdb": "imdb.train", "mnist8": "mnist.train"}
_NAMES = {"imdb": "imdb.train"}  # of load_binary, where they differ

Rows = tuple[sparse.csr_matrix, np.ndarray]


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
        return 2 * self.manifest.decoded_bytes + (64 << 20)

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
    if name == "skin":
        found = skin()
        return found and (found, None)
    if not available(_FILES[name]):
        return None
    return load_binary(_NAMES.get(name, name)), _test_rows(name)


def sorted_by_class(directory: Path, data: Data) -> Path:
    """The same rows sorted by class, as a dataset in just that order."""
    order = np.argsort(data.y, kind="stable")
    return _dataset(directory / f"{data.name}-sorted", data.X[order], data.y[order], InputOptions(shuffle="no"))


def stored_raw(data: Data) -> Path:
    """The same rows in the same order as a dataset that is not compressed."""
    with raw_codec():
        return _dataset(data.dataset.with_name(f"{data.name}-raw"), data.X, data.y, InputOptions())


def cache_for(manifest: Manifest, n_blocks: int) -> int:
    """Bytes of a cache that is sure to have room for any block of so many, however unequal its rows are."""
    return 3 * manifest.decoded_bytes // n_blocks + smallest_cache(manifest.longest_row)


def _ingested(directory: Path, name: str, X, y, test) -> Data:
    return Data(name, _dataset(directory / name, X, y, InputOptions()), X, y, test)


def _dataset(path: Path, X, y, options: InputOptions) -> Path:
    text = path.with_suffix(".svm")
    write_libsvm(text, X, y)
    with text.open("rb") as source:
        ingest(read_chunks(source), path, options)
    text.unlink()
    return path


def _generated(directory: Path, text_size: str) -> Data:
    size = parse_size(os.environ.get("SIZE", text_size))
    X, y = prepare_generated(directory / "text", size).load()
    return _ingested(directory, "generated", X.astype(np.float64), y, generated_test(directory))


def generated_test(directory: Path) -> Rows:
    """Test rows like those of generated text; their text goes below `directory`."""
    generate(directory / "test.svm", rows=GENERATED_TEST_ROWS, test=True)
    X, y = load_svmlight_file(str(directory / "test.svm"), zero_based=False)
    return X, one_vs_rest(y > 0, True)


def skin() -> Rows | None:
    """(X, y): three colours divided by 255; skin (label 1) against the rest. None: it is not available."""
    if not _SKIN.is_file():
        return None
    with _SKIN.open("rb") as file:
        table = np.loadtxt(io.BytesIO(zstandard.ZstdDecompressor().stream_reader(file).read()))
    return sparse.csr_matrix(table[:, :3] / 255), one_vs_rest(table[:, 3], 1)


def _test_rows(name: str) -> Rows:
    if name == "mnist8":
        X, y = load("mnist.test")
        return X, one_vs_rest(y, 8)
    return load_binary(f"{name}.test")
