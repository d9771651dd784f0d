"""Kernel values a core second, beside LIBSVM's and scikit-learn's; what merging takes; what a second thread brings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.models.gaussian_kernel import gaussian, inner_products
from streamsvm.storage.models.support_vectors import SupportVectors
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.machines import libsvm
from tests.bench.machines.clusters import GAMMA, NON_ZEROS, WIDTH, clusters
from tests.bench.machines.machine import rows_of
from tests.bench.report import header, prose, row, spread
from tests.bench.usage import CORES
from tests.reference.data import write_libsvm

VECTORS = 500
FEWER = 4  # vectors of a second model: what the two take differently is the kernel's
ROWS, TRAINING_ROWS = 10_000, 40_000
EPOCHS = 5
C = 4.0
TIMES, MOST_MERGING, SPEED_UP = 2.0, 0.25, 1.6  # what is demanded
_PIECE = 256
_CACHE = 1 << 30


def run() -> Iterator[str]:
    """Lines of Markdown."""
    commands.compile_seconds()
    yield from _kernel()
    yield from _training()


def _kernel() -> Iterator[str]:
    yield "### Kernel values"
    yield ""
    yield from prose(
        f"f of {ROWS:,} rows with {NON_ZEROS} non-zeros of {WIDTH} features, {VECTORS} vectors like them; a "
        "core; million "
        f"values k(z, x) a core second, medians of {REPEATS} in turn ± half their range. *LIBSVM*: "
        "`svm-predict` on the "
        f"rows with {VECTORS} vectors less the same with {FEWER}, so that reading the text is not in it. "
        "*scikit-learn*: "
        f"`rbf_kernel`, {_PIECE} rows at a time, one thread of BLAS, of sparse rows and of dense ones."
    )
    found = kernel_speeds(ROWS)
    yield from header("", "million values a second", "StreamSVM / it")
    ours = median(found["StreamSVM"])
    for name, speeds in found.items():
        yield row(name, spread(speeds), f"{ours / median(speeds):.2g}")
    yield ""
    yield from prose(kernel_verdict({name: median(speeds) for name, speeds in found.items()}))


def kernel_verdict(speeds: dict[str, float]) -> str:
    """One honest sentence."""
    ratios = {name: speeds["StreamSVM"] / speed for name, speed in speeds.items() if name != "StreamSVM"}
    met = all(ratio >= TIMES for ratio in ratios.values())
    words = ", ".join(f"{ratio:.2g} times {name}" for name, ratio in ratios.items())
    return f"**{'Met' if met else 'Missed'}**: {words} (demanded: {TIMES:g} times all of them)."


def kernel_speeds(n_rows: int) -> dict[str, list[float]]:
    """Million kernel values a core second, an entry a repeat; the first time, which compiles, is left out."""
    X, _ = clusters(n_rows)
    Z, y = clusters(VECTORS, seed=1)
    beta = y * np.random.default_rng(0).uniform(0.1, C, VECTORS)
    ways: dict[str, Callable[[], float]] = {
        "StreamSVM": lambda: _ours(X, Z, beta),
        "scikit-learn, sparse": lambda: _scikit_learn(X, Z, beta),
        "scikit-learn, dense": lambda: _scikit_learn(X.toarray(), Z.toarray(), beta),
        "scikit-learn, dense float64": lambda: _scikit_learn(*(A.toarray().astype(float) for A in (X, Z)), beta),
    }
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory, threadpool_limits(1):
        if libsvm.is_there():
            svm_predict = Predicting(Path(directory), X, Z, beta)
            ways["LIBSVM"] = svm_predict.seconds
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(REPEATS + 1):
            for name, way in ways.items():
                found[name].append(n_rows * _vectors_of(name) / way() / 1e6)
    return {name: speeds[1:] for name, speeds in found.items()}


def _vectors_of(name: str) -> int:
    return VECTORS - FEWER if name == "LIBSVM" else VECTORS


def vectors_of(Z: sparse.csr_matrix, gamma: float) -> SupportVectors:
    """The rows of Z (n, width) as support vectors."""
    rows = rows_of(Z)
    return SupportVectors(gamma, Z.shape[1], rows.indptr, rows.indices, rows.values)


def _ours(X: sparse.csr_matrix, Z: sparse.csr_matrix, beta: np.ndarray) -> float:
    rows, norms = rows_of(X), np.asarray(Z.multiply(Z).sum(axis=1), float).ravel()
    columns, values = np.ascontiguousarray(Z.toarray().T), np.empty((X.shape[0], Z.shape[0]))
    began = time.process_time()
    _kernel_values(rows.indptr, rows.indices, rows.values, columns, norms, GAMMA, values)
    values @ beta
    return time.process_time() - began


@njit(cache=True, nogil=True)
def _kernel_values(indptr, indices, values, Z, norms, gamma, out):
    """As training makes them, (n, n_vectors)."""
    products, room = np.empty(Z.shape[1], np.float32), np.empty(Z.shape[1])
    for i in range(out.shape[0]):
        norm = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            norm += np.float64(values[j]) ** 2
        inner_products(indices, values, indptr[i], indptr[i + 1], Z, products)
        gaussian(products, norms, norm, gamma, room, out[i])


def _scikit_learn(X, Z, beta: np.ndarray) -> float:
    began = time.process_time()
    for first in range(0, X.shape[0], _PIECE):
        rbf_kernel(X[first : first + _PIECE], Z, gamma=GAMMA) @ beta
    return time.process_time() - began


class Predicting:
    """svm-predict on the same rows with VECTORS and with FEWER of them."""

    def __init__(self, directory: Path, X: sparse.csr_matrix, Z: sparse.csr_matrix, beta: np.ndarray) -> None:
        self.text, self.models = directory / "rows.svm", (directory / "all.model", directory / "fewer.model")
        write_libsvm(self.text, X, np.ones(X.shape[0]))
        for model, count in zip(self.models, (VECTORS, FEWER), strict=True):
            libsvm.write_model(model, vectors_of(Z[:count], GAMMA), beta[:count].tolist())

    def seconds(self) -> float:
        """Core seconds of VECTORS - FEWER vectors."""
        all_, fewer = (libsvm.predict(self.text, model)[1].core_seconds for model in self.models)
        return all_ - fewer


def _training() -> Iterator[str]:
    yield "### Training"
    yield ""
    yield from prose(
        f"{TRAINING_ROWS:,} such rows in clusters, 5% of the labels turned over; jobs of {EPOCHS} epochs, C = {C:g}, "
        f"budget {VECTORS}, lookup and 59 candidates; medians of {REPEATS} seeds in turn ± half their range. "
        "*visits* a "
        "second of the trainer's kernel, by the clock; *merging*: share of that time."
    )
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        dataset = jobs.ingested(Path(directory) / "dataset", *clusters(TRAINING_ROWS))
        found: dict[int, list[dict]] = {1: [], 2: []}
        for seed in range(REPEATS):
            for threads, several in found.items():
                several.append(_job(dataset, threads, seed))
    yield from header("threads", "visits a second", "merging", "merges a visit", "accuracy")
    for threads, several in found.items():
        yield row(
            threads,
            spread([visits_a_second(last) for last in several], ",.0f"),
            spread([merging_share(last) for last in several], ".1%"),
            f"{median(last['merges'] / last['updates'] for last in several):.2f}",
            spread([last["accuracy"] for last in several], ".1%"),
        )
    yield ""
    yield from prose(training_verdict(found))


def _job(dataset: Path, threads: int, seed: int) -> dict:
    """The last pass, and the accuracy on other rows."""
    done = jobs.train(
        dataset, solver="bsca", C=C, gamma=GAMMA, budget=VECTORS, threads=threads, seed=seed, tolerance=None,
        max_passes=EPOCHS, cache_bytes=_CACHE,
    )  # fmt: skip
    assert done.machine is not None
    return {**done.passes[-1], "accuracy": done.machine.accuracy(*clusters(ROWS, seed=2))}


def visits_a_second(last: dict) -> float:
    """Of a run, by its last pass."""
    return last["updates"] / last["visiting_seconds"]


def merging_share(last: dict) -> float:
    """Of the visits' seconds."""
    return last["merging_seconds"] / last["visiting_seconds"]


def training_verdict(found: dict[int, list[dict]]) -> str:
    """Two honest sentences."""
    share = median(merging_share(last) for last in found[1])
    one, two = (median(visits_a_second(last) for last in found[threads]) for threads in (1, 2))
    gained = (
        f"**{'Met' if two / one >= SPEED_UP else 'Missed'}**: two threads make {two / one:.2f} times the visits of one "
        f"(demanded: {SPEED_UP:g})."
        if CORES > 1
        else "Two threads against one: not measured on one core."
    )
    return (
        f"**{'Met' if share <= MOST_MERGING else 'Missed'}**: merging takes {share:.0%} of one thread's visits "
        "(demanded: "
        f"at most {MOST_MERGING:.0%}). {gained}"
    )
