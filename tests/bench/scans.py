"""Scans of rows in memory, dense and with indices, beside numpy's product of the same matrix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from streamsvm.storage.rows.csr import add_rows, read_only, row_dots
from tests.bench.report import header, prose, row

REPEATS, VALUES = 7, 1 << 25


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"{VALUES * 4 >> 20} MiB of float32, one core, GB of values a second, medians of {REPEATS} in turn: <w, x> of "
        "all rows (*dots*) and a sum of all rows (*sums*). numpy multiplies in float32, StreamSVM in float64; *share*: "
        "of numpy's. Target: dense rows at 80%."
    )
    yield from header("columns", "", "with indices", "dense", "numpy", "share")
    for columns in (28, 200, 784):
        yield from _lines(columns)


def _lines(columns: int) -> Iterator[str]:
    rng, n_rows = np.random.default_rng(0), VALUES // columns
    X, w, coefficient = rng.random((n_rows, columns), np.float32), rng.random(columns), rng.random(n_rows)
    indptr, indices = np.arange(n_rows + 1) * columns, np.tile(np.arange(columns, dtype=np.int32), n_rows)
    sparse, dense = read_only(indptr, indices, X.reshape(-1)), read_only(indptr, indices[:0], X.reshape(-1))
    w32, coefficient32, dots, total = w.astype(np.float32), coefficient.astype(np.float32), np.empty(n_rows), w.copy()
    ways: dict[str, tuple[Callable[[], object], ...]] = {
        "dots": (lambda: row_dots(*sparse, w, dots), lambda: row_dots(*dense, w, dots), lambda: X @ w32),
        "sums": (
            lambda: add_rows(coefficient, *sparse, total),
            lambda: add_rows(coefficient, *dense, total),
            lambda: coefficient32 @ X,
        ),
    }
    for name, each in ways.items():
        speeds = [X.nbytes / 1e9 / seconds for seconds in _in_turn(each)]
        yield row(columns, name, *(f"{speed:.1f}" for speed in speeds), f"{speeds[1] / speeds[2]:.2f}")


def _in_turn(ways: tuple[Callable[[], object], ...]) -> list[float]:
    with threadpool_limits(1):
        measured = [[_seconds(way) for way in ways] for _ in range(REPEATS + 1)]
    return [median(column) for column in zip(*measured[1:], strict=True)]  # the first time compiles


def _seconds(way: Callable[[], object]) -> float:
    began = time.process_time()
    way()
    return time.process_time() - began
