"""What a pass costs the reader process: seconds of a core, which tell more than a clock where cores are shared."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands
from tests.bench.prepared import prepare_generated, size_limit
from tests.bench.report import header, prose, row

REPEATS = 5
PASSES = 7
SHARE = 0.1
_POLL_SECONDS = 0.005
_STALL_SECONDS = 60


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        data = prepare_generated(Path(directory) / "generated", size_limit())
        dataset = data.text.with_name("dataset")
        commands.ingest_command(data.text, dataset)
        yield from prose(
            f"Core seconds of the reader process by pass, {data.text_bytes / 1e6:.0f} MB of generated text, "
            f"{data.nnz / 1e6:.0f} million non-zeros, a cache of a tenth, no rows on the trainer's disk, C = 1: "
            f"medians of {REPEATS} jobs. MB/s: of rows as the cache has them, by a core that does nothing else."
        )
        found = [core_seconds(dataset) for _ in range(REPEATS)]
        medians = [median(seconds) for seconds in zip(*found, strict=True)]
        megabytes = read_manifest(dataset).decoded_bytes / 1e6
        yield from header("", *map(str, range(1, PASSES + 1)), words=1)
        yield row("core seconds", *(f"{seconds:.2f}" for seconds in medians))
        yield row("MB/s", *(f"{megabytes / seconds:.0f}" for seconds in medians))
        yield ""


def core_seconds(dataset: Path) -> list[float]:
    """Of each pass of a job."""
    manifest = read_manifest(dataset)
    cache_bytes = int(manifest.decoded_bytes * SHARE)
    fields = {"cache_bytes": cache_bytes, "spill": False, "max_passes": PASSES, "tolerance": None}
    spec = parse_spec({"dataset": "x", "bias": None, **fields})
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        prepare_run(Path(directory) / "run", plan_job(spec, manifest), dataset)
        job = ProcessRun(Path(directory) / "run", Path(directory), _STALL_SECONDS)
        try:
            job.start()
            return _watch(job)
        finally:
            job.close()


def _watch(job: ProcessRun) -> list[float]:
    (reader,) = (
        child
        for child in psutil.Process().children(recursive=True)
        if "streamsvm.reader.stream.process" in " ".join(child.cmdline())
    )
    used = [0.0] * (PASSES + 2)  # by the end of each pass; the reader begins one more
    while not job.poll():
        if not job.control["training_done"] and reader.status() != psutil.STATUS_ZOMBIE:
            used[int(job.control["pass"])] = sum(reader.cpu_times()[:2])
        time.sleep(_POLL_SECONDS)
    return [end - start for start, end in pairwise(used[:-1])]
