"""How fast text becomes a dataset, and what each stage of it takes alone on one core."""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from streamsvm.reader.ingest.ingest_kernel import scatter
from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.ingest.shuffle import BUCKETS, PIECE_WORDS
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.storage.blocks.block import BlockWriter, Piece, decode_piece, read_index
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.rows.csr import Array, Rows
from streamsvm.storage.rows.segment import packed_bytes
from tests.bench import commands
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.report import header, prose, row
from tests.bench.usage import Spent, median_spent

TEXT_BYTES = 400_000_000
STAGE_BYTES = 100_000_000


def run() -> Iterator[str]:
    """Lines of Markdown: the command as a whole, and its stages."""
    yield from whole()
    yield ""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        sample = Path(directory, "sample")
        generate(sample, size_bytes=STAGE_BYTES)
        yield from stage_table(sample, Path(directory))


def whole() -> Iterator[str]:
    """Lines of Markdown: the command on a text, and on a small one, which tells how long it takes to start."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, small = (Path(directory, name) for name in ("text", "small"))
        for path, size in ((text, TEXT_BYTES), (small, 1_000_000)):
            generate(path, size_bytes=size)
        with small.open("rb") as file:
            ingest(read_chunks(file), Path(directory, "compiled"))
        yield from whole_table(text, small, Path(directory))


def whole_table(text: Path, small: Path, directory: Path) -> Iterator[str]:
    """The command as the service runs it, from its start until the dataset is durable."""
    yield from prose(
        f"Median of {REPEATS} runs of `python -m streamsvm.reader.ingest` on {TEXT_BYTES / 1e6:.0f} MB of text-like "
        "data (`tests.bench.generate`), from the start of the program until all is synced; *start*: the same with 1 "
        "MB. *core seconds* are those in which any of its threads computed, and tell more where cores are shared."
    )
    yield from header("", "seconds", "MB/s of text", "core seconds", "MB/s of text a core")
    start, whole = (_median_of_runs(path, directory / "data") for path in (small, text))
    yield _line("start", start, small.stat().st_size)
    yield _line("whole", whole, text.stat().st_size)
    yield _line("without the start", whole - start, text.stat().st_size - small.stat().st_size)
    manifest = Dataset(directory / "data").manifest
    yield ""
    yield f"Stored: {manifest.stored_bytes / manifest.decoded_bytes:.1%} of the decoded bytes."


def _line(name: str, spent: Spent, size: int) -> str:
    cells = (
        (f"{seconds:.2f}", f"{size / 1e6 / seconds:.0f}") for seconds in (spent.seconds, spent.core_seconds or 0.0)
    )
    return row(name, *chain(*cells))


def _median_of_runs(text: Path, directory: Path) -> Spent:
    several: list[Spent | None] = []
    for _ in range(REPEATS):
        shutil.rmtree(directory, ignore_errors=True)
        several.append(commands.ingest_command(text, directory).spent)
    found = median_spent(several)
    assert found is not None
    return found


def stage_table(text: Path, directory: Path) -> Iterator[str]:
    """Each stage for itself."""
    with text.open("rb") as file:
        chunks = list(read_chunks(file))
    batches = list(LibsvmParser(InputOptions(), InputLimits()).parse_chunks(chunks))
    manifest = ingest(chunks, directory / "stages")
    blocks = [block_path(directory / "stages", k).read_bytes() for k in range(len(manifest.blocks))]
    indices = [read_index(io.BytesIO(data), info) for data, info in zip(blocks, manifest.blocks, strict=True)]
    pieces = [piece.rows for piece in _pieces(blocks, indices)]
    stages: dict[str, Callable[[], object]] = {
        "parse": lambda: sum(len(rows) for rows in LibsvmParser(InputOptions(), InputLimits()).parse_chunks(chunks)),
        "scatter": lambda: _scatter(batches),
        "encode, compress and write": lambda: _write(pieces, directory / "block"),
        "check and decode": lambda: sum(map(len, _pieces(blocks, indices))),
    }
    decoded = packed_bytes(manifest.n_rows, manifest.nnz)
    yield from prose(
        f"The stages alone, one thread, {STAGE_BYTES / 1e6:.0f} MB of such text, least of {REPEATS} times."
    )
    yield from header("stage", "MB/s of text", "MB/s of decoded bytes")
    for name, stage in stages.items():
        seconds = min(_seconds(stage) for _ in range(REPEATS))
        yield row(name, f"{STAGE_BYTES / 1e6 / seconds:.0f}", f"{decoded / 1e6 / seconds:.0f}")


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


def _pieces(blocks: list[bytes], indices: list[Array]) -> Iterator[Piece]:
    for data, index in zip(blocks, indices, strict=True):
        for each in index:
            yield decode_piece(memoryview(data)[int(each["offset"]) :][: int(each["bytes"])], each)
