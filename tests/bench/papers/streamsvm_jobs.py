"""Jobs of StreamSVM and of block minimization by the clock, in little memory and on disks of any speed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.run.state import RUN_FILE, State, open_state
from tests.bench import commands, jobs
from tests.bench.generate import generate, parse_size
from tests.bench.papers.data import Rows, accuracy, generated_test, real_rows
from tests.bench.papers.runs import kept
from tests.bench.papers.trace import Optimum, weights
from tests.bench.throttle import Throttle, forget_pages
from tests.contracts.problems import random_problem
from tests.end_to_end.cgroup import MemoryGroup
from tests.reference.data import write_libsvm

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
_WORDS = ("elapsed_seconds", "dual_objective", "gap", "reader_wait_seconds", "trainer_wait_seconds", "sweeps")
_LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Run:
    """A job that has run.

    passes     figures of each pass that it finished, maybe none, with those of its sweeps. With test rows,
               `accuracy` is that of the w that it published last; a pass of less than _LOOK_SECONDS may lack it
    most       seconds that it was given
    read_in    seconds that the reading in took, before the first of those in `passes`
    converged  whether it ended by its rule, a relative gap of RELATIVE_GAP
    primal     P(w) of its certificate; dual: D(alpha)
    accuracy   share of test rows on the right side of w, None without test rows
    """

    passes: list[dict[str, Any]]
    converged: bool
    primal: float
    dual: float
    accuracy: float | None = None
    most: float = 0.0
    read_in: float = 0.0

    @property
    def points(self) -> list[dict[str, Any]]:
        """Figures after each pass and each of its sweeps that the history lists, the earliest first."""
        found = [point for each in self.passes for point in (*(each.get("sweeps") or ()), each)]
        return sorted(found, key=lambda each: each["elapsed_seconds"])

    @property
    def early(self) -> float | None:
        """Accuracy after FEW_PASSES passes."""
        return self.passes[FEW_PASSES - 1].get("accuracy") if len(self.passes) >= FEW_PASSES else None

    @property
    def seconds(self) -> float:
        """At the end of its last pass, the reading in among them, as in all that follow."""
        return self.read_in + (self.passes[-1]["elapsed_seconds"] if self.passes else self.most)

    @property
    def first(self) -> float | None:
        """Seconds of its first pass; None: it was given up before that ended."""
        return self.read_in + self.passes[0]["elapsed_seconds"] if self.passes else None

    def seconds_to(self, best: float, level: float) -> float | None:
        """Seconds at the end of the first pass or sweep within the level of the optimum."""
        there = (each["elapsed_seconds"] for each in self.points if off(each, best) <= level)
        return next((self.read_in + seconds for seconds in there), None)

    def waits(self, side: str) -> float:
        """Share of the time that the reader or the trainer waited."""
        return self.passes[-1][f"{side}_wait_seconds"] / self.seconds if self.passes else 0.0


def off(one: dict[str, Any], best: float) -> float:
    """(D* - D) / D* after a pass."""
    return max(1 - one["dual_objective"] / best, 1e-9)


def curve(one: Run, best: float) -> list[tuple[float, float]]:
    """Seconds, and how far off, after each pass and sweep."""
    return [(one.read_in + each["elapsed_seconds"], off(each, best)) for each in one.points]


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


def run_job(
    experiment: str, data: Text, name: str, most_seconds: float, C: float, share: float, seed: int, speed: int | None
) -> Run:
    """A job of a contender whose cache is a share of the decoded rows, on a disk of so many MB/s (None: as it is)."""
    fields = {
        "C": C, "cache_bytes": int(share * data.manifest.decoded_bytes), "tolerance": None,
        "relative_gap": RELATIVE_GAP, "max_seconds": most_seconds, "max_passes": 10**6, "seed": seed,
        **CONTENDERS[name],
    }  # fmt: skip
    key = data.name, data.manifest.n_rows, C, speed, name, share, seed
    run = Run(**kept(experiment, key, lambda: asdict(_job(data, speed, fields))))
    return replace(run, most=most_seconds, read_in=data.seconds)


def _job(data: Text, speed: int | None, fields: dict[str, object]) -> Run:
    dataset = data.dataset
    with ExitStack() as stack:
        directory = stack.enter_context(jobs.scratch())
        throttle = stack.enter_context(Throttle(dataset, speed and speed * 10**6))
        group = MemoryGroup("clock", MEMORY)
        stack.callback(group.remove)
        forget_pages(sorted((dataset / "blocks").iterdir()))
        with _watched(data, directory / "run", fields) as after:
            result = jobs.train_in([throttle.path, group.path], dataset, directory, fields)
        passes = read_history(directory / "history.ndjson")
        right = _right(data, _state(data, directory / "run", fields))
    certificate = result["certificate"]
    return Run(
        [{**{word: each.get(word) for word in _WORDS}, "accuracy": after.get(each["pass"])} for each in passes],
        result["converged"],
        certificate["primal_objective"], certificate["dual_objective"], right,
    )  # fmt: skip


@contextmanager
def _watched(data: Text, run_directory: Path, fields: dict[str, object]) -> Iterator[Mapping[int, float | None]]:
    """Share of test rows on the right side after each pass of a run, by number of the pass; filled meanwhile."""
    found: dict[int, float | None] = {}
    has_ended = Event()

    def watch() -> None:
        state = None
        while not has_ended.wait(_LOOK_SECONDS):
            if state is None and (run_directory / RUN_FILE).exists():
                state = _state(data, run_directory, fields)
            if state and (finished := int(state.control["finished_passes"])) and finished not in found:
                found[finished] = _right(data, state)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        has_ended.set()
        watcher.join()


def _state(data: Text, run_directory: Path, fields: dict[str, object]) -> State:
    plan = plan_job(jobs.spec_of(fields), data.manifest)
    return open_state(run_directory, data.manifest.n_rows, plan.width, plan.tasks.width)


def _right(data: Text, state: State) -> float | None:
    """Share of test rows on the right side of the w that a run has published; None without test rows."""
    return data.test and accuracy(data.test, weights(Dataset(data.dataset), state.w[:, 0], 0))
