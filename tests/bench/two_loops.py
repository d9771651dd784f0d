"""The two loops alone, as the paper has them, against the default, which keeps the rows of the first pass on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.prepared import size_limit
from tests.bench.ratios import ratio, times
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent, median_spent

RELATIVE_GAP = 1e-3
MOST_SECONDS = 300.0
_WAYS = {"rows on disk": True, "two loops alone": False}


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, dataset = Path(directory) / "text.svm", Path(directory) / "dataset"
        _, n_bytes = generate(text, size_bytes=size_limit())
        commands.ingest_command(text, dataset)
        text.unlink()
        decoded = read_manifest(dataset).decoded_bytes
        yield from prose(
            f"{n_bytes / 1e6:,.0f} MB of generated text, {decoded / 1e6:,.0f} MB decoded; hinge loss, C = 1, no bias, "
            f"cache a tenth, until a relative gap of {RELATIVE_GAP:.0e} is certified or {MOST_SECONDS:.0f} s are over; "
            f"medians of {REPEATS} in turn. *training*: with its certificates, without the start of the processes. "
            "*reader*: MB of decoded rows a second while rows stream. *waits*: for the other process, all passes "
            "together. *busy*: core seconds over all cores' seconds, while rows stream and while the trainer sweeps."
        )
        yield from header(
            "", "passes", "training, s", "core s", "relative gap", "reader, MB/s", "reader waits, s",
            "trainer waits, s", "busy streaming", "busy sweeping",
        )  # fmt: skip
        found = {name: [] for name in _WAYS}
        for _ in range(REPEATS):
            for name, spill in _WAYS.items():
                found[name].append(_job(dataset, spill))
        for name, done in found.items():
            yield _line(name, done, decoded)
        first, second = (median_spent([job.training for job in done]) for done in found.values())
        yield ""
        yield from prose(ratio_sentence(second, first))


def _job(dataset: Path, spill: bool) -> jobs.Finished:
    cache_bytes, _ = jobs.tenth(read_manifest(dataset))
    return jobs.train(
        dataset, cache_bytes=cache_bytes, spill=spill, tolerance=None, relative_gap=RELATIVE_GAP, max_passes=10**6,
        max_seconds=MOST_SECONDS,
    )  # fmt: skip


def _line(name: str, done: list[jobs.Finished], decoded_bytes: int) -> str:
    training = median_spent([job.training for job in done])
    waits = [median(job.passes[-1][f"{side}_wait_seconds"] for job in done) for side in ("reader", "trainer")]
    busy = [median_spent([job.phases[phase] for job in done]).busy for phase in ("stream", "sweep")]
    return row(
        name,
        f"{median(len(job.passes) for job in done):.0f}",
        cell(training.seconds),
        cell(training.core_seconds),
        f"{median(job.certificate['relative_duality_gap'] for job in done):.1e}",
        cell(median(megabytes_a_second(job, decoded_bytes) for job in done), ".0f"),
        *(cell(seconds) for seconds in waits),
        *(cell(share, ".0%") for share in busy),
    )


def megabytes_a_second(job: jobs.Finished, decoded_bytes: int) -> float:
    """Of decoded rows, in all passes of a job while rows streamed."""
    return decoded_bytes * len(job.passes) / job.phases["stream"].seconds / 1e6


def ratio_sentence(alone: Spent, default: Spent) -> str:
    """How much longer the two loops alone take."""
    by_clock, in_cores = (times(ratio(alone, default, what)) for what in ("seconds", "core_seconds"))
    return f"The two loops alone take {by_clock} the seconds of the default, and {in_cores} its core seconds."
