"""How fast text becomes a dataset, and what each stage of it takes alone on one core."""

from __future__ import annotations

import io
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

from streamsvm.reader.ingest.ingest_kernel import scatter
from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.ingest.shuffle import BUCKETS, PIECE_WORDS
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.storage.blocks.block import BlockReader, BlockWriter, Piece
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.rows.csr import Rows
from streamsvm.storage.rows.segment import packed_bytes
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
        yield from whole_table(text, small, Path(directory))
        yield ""
        yield from stage_table(sample, Path(directory))


def whole_table(text: Path, small: Path, directory: Path) -> Iterator[str]:
    """The command as the service runs it, from its start until the dataset is durable."""
    yield f"Median of {REPEATS} runs of `python -m streamsvm.reader.ingest` on {TEXT_BYTES / 1e6:.0f} MB of"
    yield "text-like data (`tests.bench.generate`), from the start of the program until all is synced;"
    yield "*start*: the same with 1 MB."
    yield "*core seconds* are those in which any of its threads computed, and tell more where cores are shared."
    yield ""
    yield "| | seconds | MB/s of text | core seconds | MB/s of text a core |"
    yield "| --- | --: | --: | --: | --: |"
    rest = [0.0, 0.0]
    for name, path, sign in (("start", small, -1), ("whole", text, 1)):
        times = zip(*(_run_command(path, directory / "data") for _ in range(REPEATS)), strict=True)
        found = [median(repeats) for repeats in times]
        rest = [total + sign * seconds for total, seconds in zip(rest, found, strict=True)]
        yield _line(name, *found, path.stat().st_size)
    yield _line("without the start", *rest, text.stat().st_size - small.stat().st_size)
    manifest = Dataset(directory / "data").manifest
    yield ""
    yield f"Stored: {manifest.stored_bytes / manifest.decoded_bytes:.1%} of the decoded bytes."


def _line(name: str, seconds: float, core_seconds: float, size: int) -> str:
    rates = [size / 1e6 / spent for spent in (seconds, core_seconds)]
    return f"| {name} | {seconds:.2f} | {rates[0]:.0f} | {core_seconds:.2f} | {rates[1]:.0f} |"


def _run_command(text: Path, directory: Path) -> tuple[float, float]:
    """(seconds, core seconds)"""
    shutil.rmtree(directory, ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with text.open("rb") as file:
        command = [sys.executable, "-m", "streamsvm.reader.ingest.run", str(directory)]
        subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stage_table(text: Path, directory: Path) -> Iterator[str]:
    """Each stage for itself."""
    with text.open("rb") as file:
        chunks = list(read_chunks(file))
    batches = list(LibsvmParser(InputOptions(), InputLimits()).parse_chunks(chunks))
    manifest = ingest(chunks, directory / "stages")
    blocks = [block_path(directory / "stages", k).read_bytes() for k in range(len(manifest.blocks))]
    readers = [BlockReader(io.BytesIO(data), info) for data, info in zip(blocks, manifest.blocks, strict=True)]
    pieces = [piece.rows for piece in _pieces(readers)]
    stages: dict[str, Callable[[], object]] = {
        "parse": lambda: sum(len(rows) for rows in LibsvmParser(InputOptions(), InputLimits()).parse_chunks(chunks)),
        "scatter": lambda: _scatter(batches),
        "encode, compress and write": lambda: _write(pieces, directory / "block"),
        "check and decode": lambda: sum(map(len, _pieces(readers))),
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


def _pieces(readers: list[BlockReader]) -> Iterator[Piece]:
    return (reader.piece(place) for reader in readers for place in range(len(reader)))
