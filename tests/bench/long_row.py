"""Rows longer than most segments: do they take the fast way from the others, and do they have one themselves?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.rows import decoded_row_cache
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.report import header, prose, row

RELATIVE_GAP = 1e-3
SPARSE = 400_000, 60, 64 << 20  # rows, their mean length, cache
LONG = 100_000  # non-zeros of the one row
DENSE = 400, 200_000, 128 << 20  # rows, features, cache
Data = tuple[str, Path, int]  # what they are, their file, and the cache


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, C = 1, no bias, until a relative gap of {RELATIVE_GAP:g} is certified; medians of {REPEATS}, in "
        f"turn. *short*: generated text-like rows of {SPARSE[1]} non-zeros on average; *one long*: the same and a row "
        f"of {LONG:,}; *dense*: rows without a zero. *command*: `streamsvm train FILE`. *first job*: on the dataset; "
        "*next job*: on the rows that the first has kept. Start and certificates included; core seconds in brackets."
    )
    yield from header("data", "rows", "non-zeros", "cache, MiB", "command, s", "first job, s", "next job, s", "passes")
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        yield from _lines([make(Path(directory)) for make in (_short, _one_long)])
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        yield from _lines([_dense(Path(directory))])


def _short(directory: Path) -> Data:
    generate(directory / "short.svm", rows=SPARSE[0], row_length=SPARSE[1], features=1 << 20)
    return "short", directory / "short.svm", SPARSE[2]


def _one_long(directory: Path) -> Data:
    """After half of the rows."""
    path = directory / "long.svm"
    places = np.sort(np.random.default_rng(0).choice(1 << 20, LONG, replace=False)) + 1
    with path.open("wb") as file, (directory / "short.svm").open("rb") as short:
        for number, line in enumerate(short):
            if number == SPARSE[0] // 2:
                file.write(b"1 " + b" ".join(b"%d:0.003" % place for place in places) + b"\n")
            file.write(line)
    return "one long", path, SPARSE[2]


def _dense(directory: Path) -> Data:
    n_rows, width, cache = DENSE
    rng, path = np.random.default_rng(0), directory / "dense.npz"
    X = rng.standard_normal((n_rows, width), np.float32) / np.float32(np.sqrt(width))
    noise = rng.standard_normal(n_rows, np.float32) / 2
    y = np.where(X @ rng.standard_normal(width, np.float32) + noise > 0, 1, -1)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * width
    np.savez(
        path, format=np.array("csr"), shape=np.array(X.shape), data=X.ravel(), indptr=indptr,
        indices=np.tile(np.arange(width, dtype=np.int32), n_rows), y=y,
    )  # fmt: skip
    return "dense", path, cache


def _lines(several: list[Data]) -> Iterator[str]:
    for _, path, _ in several:
        with path.open("rb") as source:
            ingest(read_chunks(source), path.with_suffix(""))
    times: dict[str, list[tuple[commands.Command, jobs.Finished, jobs.Finished]]] = {name: [] for name, _, _ in several}
    for _ in range(REPEATS):
        for name, path, cache in several:
            times[name].append(_once(path, cache))
    for name, path, cache in several:
        manifest, found = read_manifest(path.with_suffix("")), list(zip(*times[name], strict=True))
        spent = (_cell([one.spent for one in each]) for each in found)
        passes = len(found[1][0].passes)
        yield row(name, f"{manifest.n_rows:,}", f"{manifest.nnz:,}", cache >> 20, *spent, passes)


def _once(path: Path, cache: int) -> tuple[commands.Command, jobs.Finished, jobs.Finished]:
    options = "--tolerance", "none", "--relative-gap", f"{RELATIVE_GAP:g}"
    command = commands.train_command(path, cache, *options)
    dataset = path.with_suffix("")
    decoded_row_cache.release(dataset)
    first, following = (
        jobs.train(dataset, cache_bytes=cache, tolerance=None, relative_gap=RELATIVE_GAP) for _ in range(2)
    )
    return command, first, following


def _cell(spent: list) -> str:
    return f"{median(one.seconds for one in spent):.1f} ({median(one.core_seconds for one in spent):.1f})"
