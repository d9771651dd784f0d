"""Generated strings of gigabytes, expanded on the way in a memory control group."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import jobs
from tests.bench.commands import launch
from tests.bench.machines.memory import Charged
from tests.bench.prepared import size_limit
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent, Stopwatch, own_core_seconds
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

LENGTH, DEGREE = 2000, 4
LIMIT, CACHE = 512 << 20, 64 << 20
PASSES = 1
_ROWS_AT_ONCE = 2_000
_MOTIF = np.frombuffer(b"TTTTCAG", np.uint8)  # in most strings of class +1, in the middle


def fasta(n_bytes: int, seed: int = 0) -> Iterator[bytes]:
    """Strings of about so many bytes, label in the header: random bases, of class +1 with a motif."""
    rng, bases = np.random.default_rng(seed), np.frombuffer(b"ACGT", np.uint8)
    head = {1: np.frombuffer(b">label=+1\n", np.uint8), -1: np.frombuffer(b">label=-1\n", np.uint8)}
    size = len(head[1]) + LENGTH + 1
    for _ in repeat(None, max(1, n_bytes // (size * _ROWS_AT_ONCE))):
        lines = np.empty((_ROWS_AT_ONCE, size), np.uint8)
        y = np.where(rng.random(_ROWS_AT_ONCE) < 0.3, 1, -1)
        lines[:, : len(head[1])] = np.where((y > 0)[:, None], head[1], head[-1])
        strings = bases[rng.integers(0, 4, (_ROWS_AT_ONCE, LENGTH), np.uint8)]
        has_motif = (y > 0) & (rng.random(_ROWS_AT_ONCE) < 0.9)
        strings[has_motif, LENGTH // 2 : LENGTH // 2 + len(_MOTIF)] = _MOTIF
        lines[:, len(head[1]) : -1], lines[:, -1] = strings, ord("\n")
        yield lines.tobytes()


def run() -> Iterator[str]:
    """Lines of Markdown."""
    if reason := reason_unusable():
        yield f"Not measured: {reason}."
        return
    size = 10 * size_limit()
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        dataset = Path(directory) / "d"
        watch = Stopwatch(own_core_seconds)
        ingest(fasta(size), dataset, InputOptions("fasta"))
        reading = watch.total()
        manifest = read_manifest(dataset)
        made = manifest.n_rows * sum(LENGTH - j for j in range(DEGREE))
        yield from prose(
            f"{manifest.input_bytes / 1e9:.3g} GB of generated strings, {manifest.n_rows:,} of {LENGTH} bases: "
            f"{manifest.stored_bytes / 1e9:.3g} GB in blocks; weighted degree {DEGREE}, {made / 1e9:.3g} billion "
            f"features of a pass, {8 * made / 1e9:.3g} GB if they were kept. Reader and trainer in a memory control "
            "group of "
            f"{LIMIT >> 20} MiB (version 1: all memory, tmpfs and page cache; what exceeds it is killed), cache "
            f"{CACHE >> 20} MiB, {PASSES} pass and the certificate. Generating and reading in: "
            f"{reading.seconds:.3g} s. One run."
        )
        yield from header("", "limit, MiB", "seconds", "core seconds", "peak, MiB", "outcome")
        spent, peak, outcome = _within(dataset)
        yield row("streamsvm", LIMIT >> 20, cell(spent.seconds), cell(spent.core_seconds), peak >> 20, outcome)


def _within(dataset: Path) -> tuple[Spent, int, str]:
    fields = {
        "dataset": "bench", "features": [{"weighted_degree": {"degree": DEGREE}}], "cache_bytes": CACHE,
        "solver_options": {"spill": False}, "tolerance": None, "max_passes": PASSES, "C": 0.01,
    }  # fmt: skip
    group = MemoryGroup("bench", LIMIT)
    try:
        with jobs.scratch() as directory, Charged(group) as charged:
            words = [sys.executable, "-m", "tests.end_to_end.cgroup", group.path, dataset, directory / "run", directory]
            ended = launch([*words, json.dumps(fields)])
            if ended.code:
                return ended.spent, charged.peak_bytes, "killed" if group.oom_kills else f"exit code {ended.code}"
            passes = read_history(directory / "history.ndjson")
            gap = json.loads(ended.printed.splitlines()[-1])["certificate"]["relative_duality_gap"]
        return ended.spent, charged.peak_bytes, f"{len(passes)} passes, certified to {gap:.1e}"
    finally:
        group.remove()
