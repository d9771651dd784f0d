"""Data far larger than memory, in a memory control group: text, and a table, both written into a pipe as they are read.

The disk holds no text, only what the command makes of it. The environment variable SIZE is how much text (1GB), ROWS
how many rows the table has (400000), MEMORY what the group may have (2GiB).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv
from sklearn.linear_model import SGDClassifier

from tests.bench.commands import STREAMSVM, Ended, launch
from tests.bench.prepared import size_limit
from tests.bench.report import cell, header, prose, row
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

COLUMNS, BATCH_ROWS = 28, 50_000
RELATIVE_GAPS = (1e-3, 1e-4)
_MEMORY = "2GiB"


def text(size_bytes: int | None = None) -> Iterator[str]:
    """Lines of Markdown: generated text of so many bytes, or of SIZE, to both gaps in one run."""
    size = size_bytes or size_limit()
    yield from prose(f"{size / 1e9:g} GB of generated text. {_how()}")
    yield from _table(["-m", "tests.bench.generate", "--size", str(size), "-o"], "--no-bias")


def table() -> Iterator[str]:
    """Lines of Markdown: a CSV table of ROWS rows, and what scikit-learn makes of it with all memory."""
    n_rows = int(os.environ.get("ROWS", "400_000"))
    yield from prose(
        f"A CSV table of {n_rows:,} rows x {COLUMNS} numbers. {_how()} *SGDClassifier*: one pass of `partial_fit` over "
        "batches of `pyarrow.csv`, which reads the same pipe; hinge loss, alpha = 1 / (C rows), no intercept; a second "
        "pass, which is not timed, adds up its P."
    )
    words = ["-m", "tests.bench.scale", str(n_rows)]
    yield from _table(words, "--no-bias", "--format", "csv", "--label-column", "y")
    seconds, P = _sgd(words, n_rows)
    yield row("SGDClassifier", 1, cell(seconds), "", "", "", f"P = {P:.6g}")


def _how() -> str:
    return (
        f"Hinge loss, C = 1: `streamsvm train -` in a memory control group of {_memory() >> 20} MiB, to which the "
        "kernel charges all memory, tmpfs and page cache, with `--memory` of three quarters. The program that writes "
        "the data is outside of it and takes a share of the cores. *read*: from the disk."
    )


def _memory() -> int:
    words = os.environ.get("MEMORY", _MEMORY).removesuffix("iB")
    return int(words[:-1]) << {"M": 20, "G": 30}[words[-1]]


def _table(generator: list[str], *options: str) -> Iterator[str]:
    if reason := reason_unusable():
        yield f"Not measured: {reason}."
        return
    group = MemoryGroup("scale", _memory())
    try:
        with written(generator) as source, tempfile.NamedTemporaryFile(suffix=".model") as model:
            words = [STREAMSVM, "train", "-", "-o", model.name, "--json", "--tolerance", "none", *options]
            words += ["--memory", str(_memory() * 3 // 4), "--relative-gap", f"{RELATIVE_GAPS[-1]:g}"]
            ended = launch(words, source, group=group.path)
        yield from header("relative gap", "pass", "seconds", "core seconds", "read, GB", "peak, MiB", "outcome")
        yield from _levels(ended)
        yield _last(ended, group)
    finally:
        group.remove()


def _levels(ended: Ended) -> Iterator[str]:
    """When the bound of a pass was first below each gap but the last."""
    passes = [json.loads(line) for line in ended.printed.splitlines() if b'"relative_gap_bound"' in line]
    for gap in RELATIVE_GAPS[:-1]:
        reached = (each for each in passes if each["relative_gap_bound"] <= gap)
        if found := next(reached, None):
            yield row(f"{gap:g}", found["pass"], cell(found["elapsed_seconds"]), "", "", "", "bound of a pass")


def _last(ended: Ended, group: MemoryGroup) -> str:
    result = json.loads(ended.printed.splitlines()[-1])["result"] if ended.code in (0, 4) else {}
    certificate = result.get("certificate", {})
    outcome = f"certified to {certificate['relative_duality_gap']:.1e}" if certificate else f"exit code {ended.code}"
    outcome += f", P = {certificate['primal_objective']:.6g}" if certificate else ", killed" * bool(group.oom_kills)
    spent = cell(ended.spent.seconds), cell(ended.spent.core_seconds), cell(ended.read_bytes / 1e9)
    return row(f"{RELATIVE_GAPS[-1]:g}", result.get("passes", ""), *spent, group.peak >> 20, outcome)


@contextmanager
def written(generator: list[str]) -> Iterator[IO[bytes]]:
    """A pipe into which a program writes: Python with these words, and the name of the pipe behind them."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source:
        words = [sys.executable, *generator, f"/dev/fd/{writing}"]
        with subprocess.Popen(words, pass_fds=[writing], stdout=subprocess.DEVNULL) as program:
            os.close(writing)
            try:
                yield source
            finally:
                program.kill()


def write_table(n_rows: int, path: Path) -> None:
    """Write the table: numbers of four digits, a label that follows from half of them, one in ten wrong."""
    rng, w = np.random.default_rng(0), np.random.default_rng(1).standard_normal(COLUMNS) * (np.arange(COLUMNS) % 2)
    names = [f"x{k}" for k in range(COLUMNS)]
    schema = pa.schema([("y", pa.int64()), *((name, pa.float64()) for name in names)])
    with path.open("wb") as file, pyarrow.csv.CSVWriter(file, schema) as writer:
        for begin in range(0, n_rows, BATCH_ROWS):
            X = rng.standard_normal((min(BATCH_ROWS, n_rows - begin), COLUMNS)).round(4)
            y = np.where((X @ w > 0) ^ (rng.random(len(X)) < 0.1), 1, -1)
            writer.write_batch(pa.record_batch([pa.array(y), *map(pa.array, X.T)], schema=schema))


def _sgd(generator: list[str], n_rows: int) -> tuple[float, float]:
    """Seconds of a pass, and P of what it came to."""
    classifier, began = SGDClassifier(loss="hinge", alpha=1 / n_rows, fit_intercept=False), time.perf_counter()
    for X, y in _batches(generator):
        classifier.partial_fit(X, y, [-1, 1])
    seconds = time.perf_counter() - began
    losses = sum(np.maximum(0.0, 1.0 - y * classifier.decision_function(X)).sum() for X, y in _batches(generator))
    return seconds, float(np.sum(classifier.coef_**2) / 2 + losses)


def _batches(generator: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with written(generator) as source:
        for batch in pyarrow.csv.open_csv(source, pyarrow.csv.ReadOptions(block_size=1 << 24)):
            y, *columns = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            yield np.stack(columns, axis=1), y


if __name__ == "__main__":
    write_table(int(sys.argv[1]), Path(sys.argv[2]))
