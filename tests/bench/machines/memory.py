"""A kernel machine of rows that are more than its cache, and more than its memory control group lets LIBSVM hold."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.commands import launch
from tests.bench.machines import libsvm
from tests.bench.machines.bumps import bumps
from tests.bench.machines.data import PARAMETERS
from tests.bench.machines.machine import Machine, machine_of
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable
from tests.reference.data import write_libsvm

ROWS, TEST_ROWS = 1_000_000, 20_000
LIMIT = 256 << 20
CACHE = 32 << 20
BUDGET = 500
EPOCHS = 3
LIBSVM_SECONDS = 60.0
LIBSVM_CACHE_MB = 32
_UNLIMITED = 1 << 50
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Attempt:
    """A run in a group: what it took, the most memory the group was charged with at once, and how it ended."""

    spent: Spent
    peak_bytes: int
    outcome: str
    machine: Machine | None = None


def run() -> Iterator[str]:
    """Lines of Markdown."""
    reason = reason_unusable() or (None if libsvm.is_there() else f"{libsvm.TRAIN} is not installed")
    if reason:
        yield f"Not measured: {reason}."
        return
    commands.compile_seconds()
    C, gamma = PARAMETERS["bumps"]
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, dataset = Path(directory) / "text.svm", Path(directory) / "dataset"
        write_libsvm(text, *bumps(ROWS, seed=2))
        ingest = commands.ingest_command(text, dataset)
        manifest = read_manifest(dataset)
        yield from prose(
            f"bumps: {ROWS:,} rows, {manifest.decoded_bytes / 1e6:.0f} MB decoded; C = {C:g}, gamma = {gamma:g}, "
            f"budget {BUDGET}, {EPOCHS} epochs, cache {CACHE >> 20} MiB; single runs. Reading in: "
            f"{ingest.seconds:.2g} s, {ingest.peak_bytes >> 20} MiB. *limit*: of the memory control group (version 1), "
            "to which the kernel charges all memory of the processes, tmpfs and page cache, and which kills what "
            "exceeds it. *peak*: private pages and tmpfs that it counts, looked at twenty times a second: page "
            "cache is "
            "taken back first. The process that starts reader and trainer is not in it with what it had loaded before. "
            f"*LIBSVM*: `svm-train -m {LIBSVM_CACHE_MB}` on the text, for at most {LIBSVM_SECONDS:.0f} s."
        )
        yield from header("", "limit, MiB", "seconds", "core seconds", "peak, MiB", "outcome")
        ours = _bsca(dataset, C, gamma)
        yield line("bsca", LIMIT, ours)
        yield line("LIBSVM", LIMIT, _libsvm(text, C, gamma, LIMIT))
        yield line("LIBSVM", None, _libsvm(text, C, gamma, _UNLIMITED))
        yield ""
        yield from prose(_verdict(ours, manifest.decoded_bytes))


def line(name: str, limit: int | None, attempt: Attempt) -> str:
    """A row of the table."""
    return row(
        name,
        "none" if limit is None else limit >> 20,
        cell(attempt.spent.seconds),
        cell(attempt.spent.core_seconds),
        attempt.peak_bytes >> 20,
        attempt.outcome,
    )


def _bsca(dataset: Path, C: float, gamma: float) -> Attempt:
    wanted = {"dataset": "bench", "solver": "bsca", "C": C, "gamma": gamma, "budget": BUDGET, "cache_bytes": CACHE}
    spec = json.dumps({**wanted, "tolerance": None, "max_passes": EPOCHS})
    group = MemoryGroup("bench", LIMIT)
    try:
        with jobs.scratch() as directory, Charged(group) as charged:
            run_directory = directory / "run"
            launcher = [sys.executable, "-m", "tests.end_to_end.cgroup", group.path, dataset, run_directory, directory]
            ended = launch([*launcher, spec])
            if ended.code:
                killed = "killed by the group" if group.oom_kills else f"failed with exit code {ended.code}"
                return Attempt(ended.spent, charged.peak_bytes, killed)
            passes = read_history(directory / "history.ndjson")
            machine = machine_of(run_directory, dataset)
        return Attempt(ended.spent, charged.peak_bytes, f"{len(passes)} epochs", machine)
    finally:
        group.remove()


def _libsvm(text: Path, C: float, gamma: float, limit: int) -> Attempt:
    group = MemoryGroup("bench", limit)
    try:
        with Charged(group) as charged:
            model = text.with_suffix(".libsvm")
            words = libsvm.train_words(text, model, C, gamma, LIBSVM_SECONDS, LIBSVM_CACHE_MB)
            ended = launch(words, group=group.path)
        return Attempt(ended.spent, charged.peak_bytes, outcome(ended.code, group.oom_kills))
    finally:
        group.remove()


class Charged:
    """Context in which a thread looks at what a group counts: `peak_bytes`, private pages and tmpfs, at once."""

    def __init__(self, group: MemoryGroup) -> None:
        self._group, self._ended = group, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peak_bytes = 0

    def __enter__(self) -> Charged:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            counted = self._group.stat()
            in_memory = counted["shmem"] if "shmem" in counted else counted["mapped_file"]
            self.peak_bytes = max(self.peak_bytes, counted["rss"] + in_memory)


def outcome(code: int, kills: int) -> str:
    """How svm-train ended, in words."""
    if kills:
        return "killed by the group"
    return {0: "trained", libsvm.OUT_OF_TIME: "not done"}.get(code, f"failed with exit code {code}")


def _verdict(ours: Attempt, decoded_bytes: int) -> str:
    """One honest sentence."""
    if ours.machine is None:
        return f"**Missed**: with a limit of {LIMIT >> 20} MiB bsca was {ours.outcome}."
    accuracy = ours.machine.accuracy(*bumps(TEST_ROWS, seed=1))
    return (
        f"**Met**: bsca trained on {decoded_bytes / CACHE:.2g} times its cache within {LIMIT >> 20} MiB, "
        f"{ours.peak_bytes >> 20} MiB of them used; it is right in {accuracy:.2%} of {TEST_ROWS:,} other rows, "
        "of which "
        "10% have their labels turned over."
    )
