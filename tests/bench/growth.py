"""How cost grows with the data: 100 MB to 10 GB of generated text, as far as SIZE allows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.prepared import size_limit
from tests.bench.report import header, prose, row

SIZES = (10**8, 3 * 10**8, 10**9, 3 * 10**9, 10**10)
RELATIVE_GAP = 1e-3


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Generated text-like data, hinge loss, C = 1, no bias, cache a tenth of the decoded data, until a relative gap "
        f"of {RELATIVE_GAP:.0e} is certified while training; medians of {REPEATS}. *start* of the processes, *train*, "
        "*certify*: seconds; *core s*: core seconds of all three. Peak memory: of the ingest process; of reader, "
        "trainer, cache and state files together."
    )
    yield from header(
        "text, MB", "rows", "non-zeros", "cache, MB", "ingest, s", "MB/s", "start, s", "train, s", "core s", "passes",
        "certify, s", "relative gap", "peak ingest, MB", "peak job, MB", words=0,
    )  # fmt: skip
    for size in sizes(size_limit()):
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield _line(Path(directory), size)


def sizes(limit: int) -> tuple[int, ...]:
    """Those of SIZES up to `limit`, or `limit` itself if it is less than the first."""
    return tuple(size for size in SIZES if size <= limit) or (limit,)


def _line(directory: Path, size: int) -> str:
    text, dataset = directory / "text.svm", directory / "dataset"
    generate(text, size_bytes=size)
    ingests, done = [], []
    for _ in range(REPEATS):
        shutil.rmtree(dataset, ignore_errors=True)
        ingests.append(commands.ingest_command(text, dataset))
        manifest = read_manifest(dataset)
        cache_bytes, _ = jobs.tenth(manifest)
        done.append(jobs.train(dataset, cache_bytes=cache_bytes, tolerance=None, relative_gap=RELATIVE_GAP))
    ingest = median(command.seconds for command in ingests)
    phases = {phase: median(job.phases[phase].seconds for job in done) for phase in jobs.PHASES}
    return row(
        f"{size / 1e6:,.0f}",
        f"{manifest.n_rows:,}",
        f"{manifest.nnz:,}",
        f"{cache_bytes / 1e6:,.0f}",
        f"{ingest:.1f}",
        f"{size / ingest / 1e6:.0f}",
        f"{phases['start']:.1f}",
        f"{phases['stream'] + phases['sweep']:.1f}",
        f"{median(job.spent.core_seconds for job in done):.1f}",
        f"{median(len(job.passes) for job in done):.0f}",
        f"{phases['certify']:.1f}",
        f"{done[-1].certificate['relative_duality_gap']:.1e}",
        f"{median(command.peak_bytes for command in ingests) / 1e6:,.0f}",
        f"{median(job.peak_bytes for job in done) / 1e6:,.0f}",
    )
