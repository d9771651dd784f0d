"""Commands as the benches run them: ingest, `streamsvm train` and LIBLINEAR's program, with all that they took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.commands.train import NOT_CONVERGED
from tests.bench.jobs import scratch
from tests.bench.memory import Watch
from tests.bench.usage import Spent
from tests.contracts.problems import libsvm_text, random_problem, smallest_cache

STREAMSVM = Path(sys.executable).with_name("streamsvm")


@dataclass(frozen=True)
class Command:
    """A command that has run; `output` is its last line of JSON."""

    spent: Spent
    peak_bytes: int
    output: dict

    @property
    def seconds(self) -> float:
        return self.spent.seconds


@dataclass(frozen=True)
class Ended:
    """How a command ended, what it printed, and the bytes that it read from disks."""

    code: int
    spent: Spent
    printed: bytes
    read_bytes: int = 0


def launch(command: list[object], source=subprocess.DEVNULL, group: Path | None = None, **environment: str) -> Ended:
    """Run a command to its end, in a control group if one is given; the core seconds are of all its processes."""
    with tempfile.NamedTemporaryFile(prefix="streamsvm-bench-") as report:
        launcher = [sys.executable, "-m", "tests.bench.launch", report.name, group or "-", *command]
        words = [str(word) for word in launcher]
        settings = {**os.environ, **environment}
        done = subprocess.run(words, stdin=source, stdout=subprocess.PIPE, env=settings, check=True)
        found = json.loads(Path(report.name).read_text())
    return Ended(found["code"], Spent(found["seconds"], found["core_seconds"]), done.stdout, found["read_bytes"])


def ingest_command(text: Path, dataset: Path) -> Command:
    """Read a text in, in a process of its own."""
    with text.open("rb") as source:
        return checked([sys.executable, "-m", "streamsvm.reader.ingest.run", dataset], source)


def train_command(text: Path, cache_bytes: int, *options: str) -> Command:
    """`streamsvm train` on a text, the model thrown away."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        command = train_words(text, Path(directory) / "a.model", cache_bytes, *options)
        return checked(command)


def train_words(text: Path, model: Path, cache_bytes: int, *options: str) -> list[object]:
    """`streamsvm train` with these options, its output in JSON; without a bias unless the options name one."""
    return [STREAMSVM, "train", text, "-o", model, "--cache", cache_bytes, "--bias", "none", "--json", *options]


def watched(command: list[object], source=subprocess.DEVNULL, group: Path | None = None) -> tuple[Ended, int]:
    """`launch` with a cache directory of its own; how it ended, and the most memory that there was."""
    with scratch() as directory, Watch(directory) as watch:
        ended = launch(command, source, group, STREAMSVM_CACHE_DIR=str(directory))
    return ended, watch.peak_bytes


def checked(command: list[object], source=subprocess.DEVNULL) -> Command:
    """A command that has to end well, if not converged."""
    ended, peak_bytes = watched(command, source)
    if ended.code not in (0, NOT_CONVERGED):
        raise RuntimeError(f"{command} ended with exit code {ended.code}: {ended.printed[-2000:]!r}")
    return Command(ended.spent, peak_bytes, json.loads(ended.printed.splitlines()[-1]))


def compile_kernels() -> None:
    """All that jobs need is compiled here afterwards."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "small.svm"
        text.write_bytes(libsvm_text(*random_problem()))
        for pace in ("adaptive", "fixed"):
            train_command(text, smallest_cache(), "--pace", pace)
