"""What a second thread of the trainer brings, and what it costs: seconds and core seconds to a certified gap."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.prepared import prepare_generated, prepare_real, size_limit
from tests.bench.real_data import is_there
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import CORES, median_spent

MOST_SECONDS = 120.0

# data -> (values of the job's field `threads`, relative gaps). null: what the service chooses.
PROBLEMS: dict[str, tuple[tuple[int | None, ...], tuple[float, ...]]] = {
    "generated": ((1, 2), (1e-3, 1e-4)),
    "imdb.train": ((1, 2), (1e-3, 1e-4)),
    "a9a": ((1, None), (1e-3,)),
    "mushrooms": ((1, None), (1e-3,)),
}


def run() -> Iterator[str]:
    """Lines of Markdown."""
    commands.compile_seconds()
    yield from prose(
        f"Hinge loss, C = 1, no bias, cache a tenth of the decoded data, until the gap is certified; medians of "
        f"{REPEATS} in turn, {CORES} cores. *training*: with its certificates, without the start of the processes. "
        "*sweeps*: seconds of it in which the trainer sweeps, and the share of all cores that were busy then. a9a and "
        "mushrooms are jobs of a fraction of a second: what a thread costs there is its start."
    )
    yield from header("data", "threads", "to", "training, s", "core s", "sweeps, s", "busy", "passes")
    for name, (threads, gaps) in PROBLEMS.items():
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield from _rows(Path(directory), name, threads, gaps)


def _rows(directory: Path, name: str, threads: tuple[int | None, ...], gaps: tuple[float, ...]) -> Iterator[str]:
    if name != "generated" and not is_there(name):
        yield row(name, *["not available"] * 7)
        return
    place = directory / "data"
    data = prepare_generated(place, size_limit()) if name == "generated" else prepare_real(place, name)
    commands.ingest_command(data.text, place / "dataset")
    for gap in gaps:
        found: dict[int | None, list[jobs.Finished | ServiceError]] = {count: [] for count in threads}
        for _ in range(REPEATS):
            for count, several in found.items():
                several.append(_job(place / "dataset", count, gap))
        for count, several in found.items():
            yield line(name, "null" if count is None else str(count), gap, several)


def _job(dataset: Path, threads: int | None, gap: float) -> jobs.Finished | ServiceError:
    cache_bytes, _ = jobs.tenth(read_manifest(dataset))
    try:
        return jobs.train(
            dataset, cache_bytes=cache_bytes, threads=threads, tolerance=None, relative_gap=gap, max_passes=10**6,
            max_seconds=MOST_SECONDS,
        )  # fmt: skip
    except ServiceError as error:
        return error


def line(name: str, threads: str, gap: float, several: list[jobs.Finished | ServiceError]) -> str:
    """A row of the table, or why there is none: a field that is refused, a level that was not certified."""
    start = (name, threads, f"{gap:.0e}")
    done = [job for job in several if isinstance(job, jobs.Finished)]
    if len(done) < len(several):
        return row(*start, next(str(error.message) for error in several if isinstance(error, ServiceError)), *[""] * 4)
    if not all(job.result["converged"] for job in done):
        return row(*start, f"not certified after {MOST_SECONDS:.0f} s", *[""] * 4)
    training, sweeps = (median_spent(spent) for spent in _spent(done))
    return row(
        *start,
        cell(training.seconds),
        cell(training.core_seconds),
        cell(sweeps.seconds),
        cell(sweeps.busy, ".0%"),
        f"{median(len(job.passes) for job in done):.0f}",
    )


def _spent(done: list[jobs.Finished]) -> tuple[list, list]:
    return [job.training for job in done], [job.phases["sweep"] for job in done]
