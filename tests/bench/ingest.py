"""How fast text becomes a dataset."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.storage.blocks.dataset import Dataset
from tests.bench import commands
from tests.bench.generate import generate
from tests.bench.report import header, prose, row
from tests.bench.usage import REPEATS, Spent, median_spent

TEXT_BYTES = 400_000_000


def run() -> Iterator[str]:
    """Lines of Markdown: the command on a text, and on a small one, which tells how long it takes to start."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, small = (Path(directory, name) for name in ("text", "small"))
        for path, size in ((text, TEXT_BYTES), (small, 1_000_000)):
            generate(path, size_bytes=size)
        with small.open("rb") as file:
            ingest(read_chunks(file), Path(directory, "compiled"))
        yield from _table(text, small, Path(directory))


def _table(text: Path, small: Path, directory: Path) -> Iterator[str]:
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
    both = spent.seconds, spent.core_seconds or 0.0
    return row(name, *chain(*((f"{seconds:.2f}", f"{size / 1e6 / seconds:.0f}") for seconds in both)))


def _median_of_runs(text: Path, directory: Path) -> Spent:
    several: list[Spent] = []
    for _ in range(REPEATS):
        shutil.rmtree(directory, ignore_errors=True)
        several.append(commands.ingest_command(text, directory).spent)
    return median_spent(several)
