"""StreamSVM as the benches run it: datasets read in, jobs with a reader and a trainer, as the worker does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.options import InputOptions
from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.fork_server import fork_server
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.service.jobs.lanes.lane_files import lane_directory
from streamsvm.service.jobs.lanes.warm_start import begin_lane
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.run.state import State
from streamsvm.trainer.solvers import OPTIONS, SOLVERS
from tests.bench.machines.machine import Machine, machine_of
from tests.bench.memory import Watch
from tests.bench.usage import Spent, Stopwatch, core_seconds_below
from tests.reference.data import write_libsvm

_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Finished:
    """A job that has run.

    passes      a dictionary a pass
    results     of each lane, with its certificate; result: that of the first
    start       what its processes took to start
    training    and from then on: training, and all certificates
    peak_bytes  of both processes, cache and state files
    machine     what a solver with a kernel has left, of its last group; else None
    """

    passes: list[dict]
    results: list[dict]
    start: Spent
    training: Spent
    peak_bytes: int
    machine: Machine | None = None

    @property
    def result(self) -> dict:
        return self.results[0]

    @property
    def certificate(self) -> dict:
        return self.result["certificate"]

    @property
    def spent(self) -> Spent:
        """From the start of its processes until its certificate is made and its model could be published."""
        return self.start + self.training

    @property
    def seconds(self) -> float:
        return self.spent.seconds


def ingested(dataset: Path, X, y, options: InputOptions | None = None) -> Path:
    """The rows as a dataset; their text does not stay."""
    text = dataset.with_suffix(".svm")
    write_libsvm(text, X, y)
    with text.open("rb") as source:
        ingest(read_chunks(source), dataset, options or InputOptions())
    text.unlink()
    return dataset


def whole(manifest: Manifest) -> int:
    """Bytes of a cache that holds all rows."""
    return 2 * manifest.decoded_bytes + (64 << 20)


def tenth(manifest: Manifest) -> tuple[int, str]:
    """A tenth of the data, or the least that its longest row allows, and a remark then."""
    wanted = manifest.decoded_bytes // 10
    try:
        plan_cache(wanted, manifest.longest_row)
    except CacheTooSmall as error:
        least = int(re.findall(r"\d+", error.hint)[-1])
        return least, f" (cache {least / manifest.decoded_bytes:.0%}, the least allowed)"
    return wanted, ""


def spec_of(fields: Mapping[str, object]) -> JobSpec:
    """A job of these fields, which have the options of its solver among them."""
    own = {name: value for name, value in fields.items() if name in OPTIONS}
    general = {name: value for name, value in fields.items() if name not in OPTIONS}
    return parse_spec({"dataset": "bench", "bias": None, **general, "solver_options": own})


def train(
    dataset: Path, checkpoints: Path | None = None, begins: Callable[[State], None] | None = None, **fields: object
) -> Finished:
    """Run a job to its end, of one group of lanes; raises RuntimeError if it dies, ServiceError if it cannot run.

    checkpoints  a directory that has none: they are made there; begins: fills the state, else it is all zero
    """
    plan = plan_job(spec_of(fields), read_manifest(dataset))
    assert len(plan.running) == len(plan.lanes)
    return _run(dataset, plan, checkpoints, begins)


def train_all(dataset: Path, **fields: object) -> Finished:
    """The same, with as many groups of lanes as there are, one after the other."""
    plan = plan_job(spec_of(fields), read_manifest(dataset))
    groups = []
    with scratch() as directory:
        for first in plan.firsts:
            now = replace(plan, number=first)
            checkpoints = lane_directory(directory, now)
            checkpoints.mkdir(parents=True, exist_ok=True)
            groups.append(_run(dataset, now, checkpoints, partial(begin_lane, plan=now, job_dir=directory)))
    return Finished(
        passes=[each for group in groups for each in group.passes],
        results=[each for group in groups for each in group.results],
        start=sum((group.start for group in groups), Spent(0.0, 0.0)),
        training=sum((group.training for group in groups), Spent(0.0, 0.0)),
        peak_bytes=max(group.peak_bytes for group in groups),
        machine=groups[-1].machine,
    )


def train_in(groups: Sequence[Path], dataset: Path, directory: Path, fields: Mapping[str, object]) -> dict:
    """A job whose processes are in control groups of version 1: its result. Its files stay below the directory."""
    words = [":".join(map(str, groups)), dataset, directory / "run", directory, spec_of(fields).model_dump_json()]
    command = [sys.executable, "-m", "tests.end_to_end.cgroup", *map(str, words)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _run(
    dataset: Path, plan: JobPlan, checkpoints: Path | None = None, begins: Callable[[State], None] | None = None
) -> Finished:
    fork_server()  # a worker has one already
    with scratch() as directory, Watch(directory) as watch:
        prepare_run(directory / "run", plan, dataset, checkpoints, begins)
        run = ProcessRun(directory / "run", directory, Settings.from_environment().stall_seconds)
        start, training = _to_the_end(run)
        passes, results = read_history(directory / "history.ndjson"), run.results()
        machine = machine_of(directory / "run", dataset) if SOLVERS[plan.spec.solver].has_kernel else None
    return Finished(passes, results, start, training, watch.peak_bytes, machine)


def _to_the_end(run: ProcessRun) -> tuple[Spent, Spent]:
    """What its start took, and what the rest, once it has ended."""
    watch, start = Stopwatch(core_seconds_below), None
    try:
        run.start()
        while not run.poll():
            if start is None and run.control["started_step"]:
                start = watch.lap()
            time.sleep(_POLL_SECONDS)
    except ServiceError as error:
        raise RuntimeError(f"{error.message}\n{json.dumps(error.at)}") from error
    finally:
        run.close()
    rest = watch.lap()
    return (rest, Spent(0.0, 0.0)) if start is None else (start, rest)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory where caches are, in memory if there is such a place."""
    base = Settings.from_environment().cache_dir
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-", dir=base if base.is_dir() else None) as directory:
        yield Path(directory)
