"""Training from slow disks: near to what the disk or the processor alone would take?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.prepared import size_limit
from tests.bench.report import header, prose, row
from tests.bench.throttle import Throttle, forget_pages, reason_unusable

SPEEDS = (50, 150, 500)  # MB/s
LARGEST_TEXT = 10**9
RELATIVE_GAP = 1e-3
_PROBE_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """A job under a throttle: its passes, and bytes a second that another process got there."""

    passes: list[dict]
    disk_speed: float

    @property
    def seconds(self) -> float:
        """Of training."""
        return self.passes[-1]["elapsed_seconds"]

    def wait_ratio(self, name: str) -> float:
        """Share of the time that the `reader` or the `trainer` waited for the other."""
        return self.passes[-1][f"{name}_wait_seconds"] / self.seconds


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        reason = reason_unusable(Path(directory))
        if reason:
            yield f"Not measured: {reason}."
            return
        yield from _table(_dataset(Path(directory)))


def _dataset(directory: Path) -> Path:
    generate(directory / "text.svm", size_bytes=min(size_limit(), LARGEST_TEXT))
    commands.ingest_command(directory / "text.svm", directory / "dataset")
    (directory / "text.svm").unlink()
    return directory / "dataset"


def _table(dataset: Path) -> Iterator[str]:
    manifest = read_manifest(dataset)
    yield from prose(
        f"Generated text-like data, {manifest.stored_bytes / 1e6:,.0f} MB of blocks, C = 1, cache a tenth, until a "
        f"relative gap of {RELATIVE_GAP:.0e} is certified; medians of {REPEATS} in turn. *got*: MB/s that a process "
        "got that did nothing but read. *bound*: passes times the larger of the disk's seconds for all blocks and the "
        "unthrottled job's seconds a pass; target: below 1.3 times the bound. *waits*: share of the time."
    )
    yield from header("MB/s", "got", "passes", "seconds", "bound", "ratio", "reader waits", "trainer waits")
    found: dict[int | None, list[Job]] = {}
    for _ in range(REPEATS):
        for speed in (None, *SPEEDS):
            found.setdefault(speed, []).append(_job(dataset, manifest, speed))
    free = _median(found[None])
    for speed, several in found.items():
        yield _line(speed, _median(several), free, manifest.stored_bytes)


def _median(several: list[Job]) -> Job:
    """The job of median seconds."""
    return sorted(several, key=lambda job: job.seconds)[len(several) // 2]


def _line(speed: int | None, job: Job, free: Job, stored_bytes: int) -> str:
    passes = len(job.passes)
    limit = bound(passes, 0.0 if speed is None else stored_bytes / (speed * 1e6), free.seconds / len(free.passes))
    waits = [f"{job.wait_ratio(name):.0%}" for name in ("reader", "trainer")]
    got = f"{job.disk_speed / 1e6:.0f}"
    return row(
        speed or "free", got, passes, f"{job.seconds:.1f}", f"{limit:.1f}", f"{job.seconds / limit:.2f}x", *waits
    )


def bound(passes: int, disk_seconds: float, training_seconds: float) -> float:
    """Seconds that `passes` take at least, given those of a pass for the disk alone and for training alone."""
    return passes * max(disk_seconds, training_seconds)


def _job(dataset: Path, manifest: Manifest, speed: int | None) -> Job:
    """A job, without a bias, whose processes read so many MB/s (None: as the disk gives)."""
    fields = {"cache_bytes": jobs.tenth(manifest)[0], "tolerance": None, "relative_gap": RELATIVE_GAP}
    blocks, bytes_per_second = sorted((dataset / "blocks").iterdir()), speed and speed * 10**6
    with jobs.scratch() as directory, Throttle(dataset, bytes_per_second) as throttle:
        got = throttle.bytes_per_second(blocks, int(_PROBE_SECONDS * (bytes_per_second or 5 * 10**8)))
        forget_pages(blocks)
        jobs.train_in([throttle.path], dataset, directory, fields)
        return Job(read_history(directory / "history.ndjson"), got)
