"""How fast text becomes a dataset, and what each stage of it takes alone on one core."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from reader.ingest import ingest, read_chunks
from reader.parsers.libsvm import LibsvmParser
from reader.shuffle import BUCKETS, PIECE_WORDS
from reader.shuffle_kernel import scatter
from storage.block import BlockWriter, Piece
from storage.csr import Rows
from storage.dataset import Dataset
from storage.segment import packed_bytes
from tests.bench.generate import generate

TEXT_BYTES = 400_000_000
STAGE_BYTES = 100_000_000
REPEATS = 3


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, sample, small = (Path(directory, name) for name in ("text", "sample", "small"))
        for path, size in ((text, TEXT_BYTES), (sample, STAGE_BYTES), (small, 1_000_000)):
            generate(path, size_bytes=size)
        with small.open("rb") as file:
            ingest(read_chunks(file), Path(directory, "compiled"))
        yield from whole_table(text, Path(directory))
        yield ""
        yield from stage_table(sample, Path(directory))


def whole_table(text: Path, directory: Path) -> Iterator[str]:
    """The command as the service runs it, from its start until the dataset is durable."""
    yield f"Median of {REPEATS} runs of `python -m reader.ingest` on {TEXT_BYTES / 1e6:.0f} MB of text-like data"
    yield "(`tests.bench.generate`), with the start of the program and until all is synced. *a core*: by the seconds"
    yield "that all its threads computed, which tell more where cores are shared."
    yield ""
    yield "| MB/s of text | seconds | core seconds | MB/s of text a core | stored, of decoded |"
    yield "| --: | --: | --: | --: | --: |"
    seconds, core_seconds = zip(*(_run_command(text, directory / "data") for _ in range(REPEATS)), strict=True)
    took, computed = median(seconds), median(core_seconds)
    manifest = Dataset(directory / "data").manifest
    share = manifest.stored_bytes / manifest.decoded_bytes
    rates = TEXT_BYTES / 1e6 / took, TEXT_BYTES / 1e6 / computed
    yield f"| {rates[0]:.0f} | {took:.2f} | {computed:.2f} | {rates[1]:.0f} | {share:.1%} |"


def _run_command(text: Path, directory: Path) -> tuple[float, float]:
    """(seconds, core seconds)"""
    shutil.rmtree(directory, ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with text.open("rb") as file:
        command = [sys.executable, "-m", "reader.ingest", str(directory)]
        subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stage_table(text: Path, directory: Path) -> Iterator[str]:
    """Each stage for itself."""
    with text.open("rb") as file:
        chunks = list(read_chunks(file))
    batches = list(LibsvmParser().parse_chunks(chunks))
    manifest = ingest(chunks, directory / "stages")
    pieces = [piece.rows for piece in _pieces(directory / "stages")]
    stages: dict[str, Callable[[], object]] = {
        "parse": lambda: sum(len(rows) for rows in LibsvmParser().parse_chunks(chunks)),
        "scatter": lambda: _scatter(batches),
        "encode, compress and write": lambda: _write(pieces, directory / "block"),
        "read and decode": lambda: sum(map(len, _pieces(directory / "stages"))),
    }
    decoded = packed_bytes(manifest.n_rows, manifest.nnz)
    yield f"The stages alone, one thread, {STAGE_BYTES / 1e6:.0f} MB of such text, least of {REPEATS} times."
    yield ""
    yield "| stage | MB/s of text | MB/s of decoded bytes |"
    yield "| --- | --: | --: |"
    for name, stage in stages.items():
        seconds = min(_seconds(stage) for _ in range(REPEATS))
        yield f"| {name} | {STAGE_BYTES / 1e6 / seconds:.0f} | {decoded / 1e6 / seconds:.0f} |"


def _seconds(stage: Callable[[], object]) -> float:
    began = time.perf_counter()
    stage()
    return time.perf_counter() - began


def _scatter(batches: list[Rows]) -> None:
    memory, slot = np.empty((BUCKETS, PIECE_WORDS), np.int32), np.arange(BUCKETS)
    used, count = np.zeros(BUCKETS, np.int64), np.zeros(BUCKETS, np.int64)
    for rows in batches:
        bucket_of = np.random.default_rng(0).integers(0, BUCKETS, len(rows))
        bits = rows.label.view(np.int32).reshape(-1, 2), rows.indptr, rows.indices, rows.values.view(np.int32)
        row = 0
        while (row := scatter(row, bucket_of, *bits, slot, memory, used, count)) < len(rows):
            used[bucket_of[row]] = 0


def _write(pieces: list[Rows], path: Path) -> None:
    writer = BlockWriter(path, "", 0)
    for rows in pieces:
        writer.append(rows, 0)


def _pieces(directory: Path) -> Iterator[Piece]:
    dataset = Dataset(directory)
    for number in range(len(dataset.manifest.blocks)):
        with dataset.open_block(number) as block:
            for place in range(len(block)):
                yield block.piece(place)
