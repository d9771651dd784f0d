"""Jobs of StreamSVM and of block minimization by the clock, in little memory and on disks of any speed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.run.state import open_state
from tests.bench import commands, jobs
from tests.bench.generate import generate, parse_size
from tests.bench.papers.data import Rows, accuracy, generated_test, real_rows
from tests.bench.papers.runs import kept, limit
from tests.bench.papers.trace import Optimum, weights
from tests.bench.throttle import Throttle, forget_pages
from tests.contracts.problems import random_problem
from tests.end_to_end.cgroup import MemoryGroup
from tests.reference.data import write_libsvm

LIMIT = limit("streamsvm-clock")
RELATIVE_GAP = 1e-4
FEW_PASSES = 2
SIZE = "600MB"  # of generated text, unless the environment says another
# Of a job's processes, their files in memory and the page cache, which has no room for the rows it writes to disk.
MEMORY = 512 << 20
PRINTED, OURS, ON_DISK = "StreamSVM as printed", "streamsvm, two loops", "streamsvm, rows on disk"
SBM, BM = "SBM, distance", "BM, L-D"
# What is likely to end first comes first: others are given up by its seconds.
CONTENDERS: dict[str, dict[str, object]] = {
    ON_DISK: {"solver": "streamsvm", "spill": True},
    OURS: {"solver": "streamsvm", "spill": False},
    PRINTED: {"solver": "streamsvm_paper"},
    SBM: {"solver": "sbm", "select": "distance"},
    BM: {"solver": "bm", "inner_rounds": None},
}
_WORDS = ("elapsed_seconds", "dual_objective", "reader_wait_seconds", "trainer_wait_seconds")


@dataclass(frozen=True)
class Run:
    """A job that has run.

    passes     figures of each pass that it finished, maybe none; seconds count the reading in
    converged  whether it ended by its rule, a relative gap of RELATIVE_GAP
    primal     P(w) of its certificate; dual: D(alpha)
    accuracy   share of test rows on the right side of w, None without test rows
    early      the same of a run of FEW_PASSES passes
    """

    passes: list[dict[str, Any]]
    converged: bool
    primal: float
    dual: float
    accuracy: float | None = None
    early: float | None = None

    @property
    def seconds(self) -> float:
        """At the end of its last pass."""
        return self.passes[-1]["elapsed_seconds"] if self.passes else LIMIT

    @property
    def first(self) -> float | None:
        """Seconds of its first pass; None: it was given up before that ended."""
        return self.passes[0]["elapsed_seconds"] if self.passes else None

    def seconds_to(self, best: float, level: float) -> float | None:
        """Seconds at the end of the first pass within the level of the optimum."""
        return next((each["elapsed_seconds"] for each in self.passes if off(each, best) <= level), None)

    def waits(self, side: str) -> float:
        """Share of the time that the reader or the trainer waited."""
        return self.passes[-1][f"{side}_wait_seconds"] / self.seconds if self.passes else 0.0


def off(one: dict[str, Any], best: float) -> float:
    """(D* - D) / D* after a pass."""
    return max(1 - one["dual_objective"] / best, 1e-9)


def curve(one: Run, best: float) -> list[tuple[float, float]]:
    """Seconds, and how far off, after each pass."""
    return [(each["elapsed_seconds"], off(each, best)) for each in one.passes]


def optimum(runs: Iterable[Run]) -> Optimum:
    """The best dual objective of all: no P is below it. Doubt: the share by which the optimum may be above it."""
    runs = list(runs)
    best = max(dual for run in runs for dual in (run.dual, *(each["dual_objective"] for each in run.passes)))
    return Optimum(best, min(run.primal for run in runs) / best - 1)


def seconds_of_ended(runs: Iterable[Run]) -> list[float]:
    """Seconds of those that ended by their rule."""
    return [run.seconds for run in runs if run.converged]


@dataclass(frozen=True)
class Text:
    """A set that was read in from text, in `seconds`; `test` rows, or None."""

    name: str
    dataset: Path
    seconds: float
    test: Rows | None

    @property
    def manifest(self) -> Manifest:
        return Dataset(self.dataset).manifest


@contextmanager
def read_text(name: str, size: str = SIZE) -> Iterator[Text | None]:
    """The set of this name, generated text or a real one; None: it is not available. All kernels are there."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        small = jobs.ingested(Path(directory) / "small", *random_problem())
        for way in CONTENDERS.values():
            jobs.train(small, max_passes=3, **way)
        text, dataset = Path(directory) / "text.svm", Path(directory) / "dataset"
        if name == "generated":
            generate(text, size_bytes=parse_size(os.environ.get("SIZE", size)))
            test = generated_test(Path(directory))
        elif found := real_rows(name):
            write_libsvm(text, *found[0])
            test = found[1]
        else:
            yield None
            return
        seconds = commands.ingest_command(text, dataset).seconds
        text.unlink()
        yield Text(name, dataset, seconds, test)


def run_job(data: Text, name: str, C: float, share: float, seed: int, most_seconds: float, speed: int | None) -> Run:
    """A job of a contender whose cache is a share of the decoded rows, on a disk of so many MB/s (None: as it is)."""
    fields = {
        "C": C, "cache_bytes": int(share * data.manifest.decoded_bytes), "tolerance": None,
        "relative_gap": RELATIVE_GAP, "max_seconds": most_seconds, "max_passes": 10**6, "seed": seed,
        **CONTENDERS[name],
    }  # fmt: skip
    key = data.name, C, speed, name, share, seed
    run = Run(**kept("streamsvm-clock", key, lambda: asdict(_job(data, speed, fields))))
    passes = [{**each, "elapsed_seconds": each["elapsed_seconds"] + data.seconds} for each in run.passes]
    return replace(run, passes=passes)


def _job(data: Text, speed: int | None, fields: dict[str, object]) -> Run:
    run = _one_job(data, speed, fields)
    few = data.test and _one_job(data, None, {**fields, "max_passes": FEW_PASSES})
    return replace(run, early=few and few.accuracy)


def _one_job(data: Text, speed: int | None, fields: dict[str, object]) -> Run:
    dataset = data.dataset
    with ExitStack() as stack:
        directory = stack.enter_context(jobs.scratch())
        throttle = stack.enter_context(Throttle(dataset, speed and speed * 10**6))
        group = MemoryGroup("clock", MEMORY)
        stack.callback(group.remove)
        forget_pages(sorted((dataset / "blocks").iterdir()))
        result = jobs.train_in([throttle.path, group.path], dataset, directory, fields)
        passes = read_history(directory / "history.ndjson")
        right = _right(data, directory / "run", fields)
    certificate = result["certificate"]
    return Run(
        [{word: each[word] for word in _WORDS} for each in passes], result["converged"],
        certificate["primal_objective"], certificate["dual_objective"], right,
    )  # fmt: skip


def _right(data: Text, run_directory: Path, fields: dict[str, object]) -> float | None:
    """Share of test rows on the right side of the model that a run has ended with."""
    if data.test is None:
        return None
    plan = plan_job(jobs.spec_of(fields), data.manifest)
    w = open_state(run_directory, data.manifest.n_rows, plan.width, plan.tasks.width).w[:, 0]
    return accuracy(data.test, weights(Dataset(data.dataset), w, 0))
