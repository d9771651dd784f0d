"""StreamSVM as the benches run it: datasets read in, jobs with a reader and a trainer, as the worker does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reader.ingest import ingest, read_chunks
from service.commands.train import NOT_CONVERGED
from service.errors import ServiceError
from service.jobs import parse_spec
from service.problem import plan_job
from service.progress import read_history
from service.run import Run, prepare_run
from service.settings import Settings
from storage.dataset import Manifest, read_manifest
from storage.errors import CacheTooSmall
from storage.plan import plan_cache
from tests.bench.memory import Watch
from tests.contracts.problems import libsvm_text, random_problem, smallest_cache
from tests.reference.data import write_libsvm

_POLL_SECONDS = 0.005
_STREAMSVM = Path(sys.executable).with_name("streamsvm")


@dataclass(frozen=True)
class Finished:
    """A job that has run.

    passes            a dictionary a pass
    result            with the certificate
    cached            share of the data in the cache in the end
    trained_seconds   from the start of its processes to the end of training
    seconds           and to the end of certifying
    peak_bytes        of both processes, cache and state files
    """

    passes: list[dict]
    result: dict
    cached: float
    trained_seconds: float
    seconds: float
    peak_bytes: int

    @property
    def certificate(self) -> dict:
        return self.result["certificate"]

    @property
    def start_seconds(self) -> float:
        """Until the processes have started and the trainer has its first rows."""
        return self.trained_seconds - self.passes[-1]["elapsed_seconds"]


@dataclass(frozen=True)
class Command:
    """A command that has run; `output` is its last line of JSON."""

    seconds: float
    peak_bytes: int
    output: dict


def ingested(dataset: Path, X, y) -> Path:
    """The rows as a dataset; their text does not stay."""
    text = dataset.with_suffix(".svm")
    write_libsvm(text, X, y)
    with text.open("rb") as source:
        ingest(read_chunks(source), dataset)
    text.unlink()
    return dataset


def tenth(manifest: Manifest) -> tuple[int, str]:
    """A tenth of the data, or the least that its longest row allows, and a remark then."""
    wanted = manifest.decoded_bytes // 10
    try:
        plan_cache(wanted, manifest.longest_row)
    except CacheTooSmall as error:
        least = int(re.findall(r"\d+", error.hint)[-1])
        return least, f" (cache {least / manifest.decoded_bytes:.0%}, the least allowed)"
    return wanted, ""


def train(dataset: Path, **fields: object) -> Finished:
    """Run a job to its end; raises RuntimeError if it dies, ServiceError if it cannot run."""
    spec = parse_spec({"dataset": "bench", **fields})
    manifest = read_manifest(dataset)
    with scratch() as directory, Watch(directory) as watch:
        prepare_run(directory / "run", plan_job(spec, manifest), dataset)
        run = Run(directory / "run", directory, Settings.from_environment().stall_seconds)
        began = time.perf_counter()
        trained = _to_the_end(run) - began
        seconds = time.perf_counter() - began
        passes, result = read_history(directory / "history.ndjson"), run.result()
        cached = run.control["resident_bytes"] / manifest.decoded_bytes
    return Finished(passes, result, cached, trained, seconds, watch.peak_bytes)


def _to_the_end(run: Run) -> float:
    """When training had ended; returns once it is certified."""
    certificates, trained = 0, None
    try:
        run.start()
        while not run.poll():
            # The last certificate is that of the result.
            if run.control["certificates_wanted"] > certificates:
                certificates, trained = run.control["certificates_wanted"], time.perf_counter()
            time.sleep(_POLL_SECONDS)
    except ServiceError as error:
        raise RuntimeError(f"{error.message}\n{json.dumps(error.at)}") from error
    finally:
        run.kill()
    return trained or time.perf_counter()


def ingest_command(text: Path, dataset: Path) -> Command:
    """Read a text in, in a process of its own."""
    with text.open("rb") as source:
        return _command([sys.executable, "-m", "reader.ingest", dataset], source)


def train_command(text: Path, cache_bytes: int, *options: str, **environment: str) -> Command:
    """`streamsvm train` on a text, the model thrown away."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        model = Path(directory) / "a.model"
        command = [_STREAMSVM, "train", text, "-o", model, "--cache", cache_bytes, "--json", *options]
        return _command(command, environment=environment)


def _command(command: list[object], source=subprocess.DEVNULL, environment=None) -> Command:
    with scratch() as directory, Watch(directory) as watch:
        environment = {**os.environ, "STREAMSVM_CACHE_DIR": str(directory), **(environment or {})}
        words = [str(word) for word in command]
        began = time.perf_counter()
        done = subprocess.run(words, stdin=source, stdout=subprocess.PIPE, env=environment, check=False)
        seconds = time.perf_counter() - began
    if done.returncode not in (0, NOT_CONVERGED):
        raise RuntimeError(f"{words} ended with exit code {done.returncode}")
    return Command(seconds, watch.peak_bytes, json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory where caches are, in memory if there is such a place."""
    base = Settings.from_environment().cache_dir
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-", dir=base if base.is_dir() else None) as directory:
        yield Path(directory)


def compile_seconds() -> float:
    """What compiling adds to the very first job of a machine. Afterwards all that jobs need is compiled here."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "small.svm"
        text.write_bytes(libsvm_text(*random_problem()))
        elsewhere = {"NUMBA_CACHE_DIR": str(Path(directory) / "kernels")}
        cold, warm = (train_command(text, smallest_cache(), **elsewhere).seconds for _ in range(2))
        for pace in ("adaptive", "fixed"):
            train_command(text, smallest_cache(), "--pace", pace)
    return cold - warm
