"""Reader and trainer in one process, taking turns: no threads, no sleeping, the same files as a real run."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.stream.process import Reader
from streamsvm.service.jobs.fields.spec import JobSpec, migrate
from streamsvm.service.jobs.plan.lanes import Lane
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.processes.inline_run import Turns
from streamsvm.service.processes.run import prepare_run
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE, State, open_state
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.process import Trainer
from streamsvm.trainer.rows.disk import DiskRows, MakeDisk, OpenStored
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, MakeShared, Solver
from streamsvm.trainer.solvers.streamsvm import streamsvm

# What differs between two runs that are the same: seconds, and how far the reader was at that moment.
CLOCKS = {"elapsed_seconds", "reader_wait_seconds", "trainer_wait_seconds"}
AHEAD = {"rows_streamed", "rows_screened", "resident_rows", "resident_bytes", "evicted_rows", "read_bytes"}


@dataclass
class Outcome:
    """What a run left: a dict per pass, the result of each lane with its certificate, and the state."""

    passes: list[dict]
    results: list[dict]
    state: State

    @property
    def result(self) -> dict:
        """Of the first lane, or the only one."""
        return self.results[0]

    @property
    def w(self) -> Array:
        """(features,) of one task, (features, width) of several."""
        return without_axis(self.state.w)

    @property
    def alpha(self) -> Array:
        """(n_rows,) of one task, (n_rows, width) of several."""
        return without_axis(self.state.alpha)


def without_axis(array: Array) -> Array:
    """A view without the axis of tasks where there is one task."""
    return array[:, 0] if array.shape[1] == 1 else array


def small_disk(directory: str | None, lent: int, open_stored: OpenStored | None = None) -> DiskRows:
    """Of many segments for a few rows; how fast the real one is decides nothing."""
    return DiskRows(
        directory, lent, open_stored, SMALL_SEGMENT, lambda directory: DiskHealth(directory, clock=lambda: 0.0)
    )


def solvers_with(make_disk: MakeDisk) -> dict[str, Solver]:
    """SOLVERS, but streamsvm has its rows on this disk, and its threads share sweeps over however few."""
    return {
        **SOLVERS,
        "streamsvm": replace(
            SOLVERS["streamsvm"], train=partial(streamsvm, make_disk=make_disk, shares=lambda *_: True)
        ),
    }


SMALL_SEGMENT = 4 << 10
SMALL = solvers_with(small_disk)


def write_run(run: Path, dataset: Path, cache_bytes: int, positive: float | None = None, **settings: object) -> None:
    """Lay out a run directory as the worker does.

    `settings` are a job's fields, options of its solver among them, C_negative, `checkpoints`, and ways of the
    contracts: on_disk, rows are kept there at pace "fixed", too, as there are threads, and a pass has as many sweeps as
    updates_per_row says; holds_all, which is about `cache_bytes`; lanes, all that the fields say, side by side; number,
    of the lane.
    """
    settings.pop("holds_all", None)
    checkpoints = settings.pop("checkpoints", None)
    on_disk = settings.pop("on_disk", False)
    manifest = Dataset(dataset).manifest
    C_negative = settings.pop("C_negative", None)
    has_lanes, number = settings.pop("lanes", False), settings.pop("number", 0)
    settings = nested(settings)
    spec = JobSpec(**{"dataset": "test", "bias": None, "pace": "fixed", "cache_bytes": cache_bytes, **settings})
    cache = plan_cache(cache_bytes, manifest.longest_row + (spec.bias is not None))
    labels: tuple[float, ...] = ()
    if has_lanes or spec.is_joint:
        plan = plan_job(spec, manifest)
        assert spec.is_joint or len(plan.running) == len(plan.lanes) > 1
        plan = replace(plan, number=number)
    else:
        if spec.loss not in REGRESSION:
            first = max(manifest.labels) if positive is None else positive
            labels = (first, *(label for label in manifest.labels if label != first))
        lane = Lane(*(labels or (None,))[:1] * 2, None, spec.C, spec.C, C_negative or spec.C)
        plan = JobPlan(spec, manifest, labels, (lane,), cache, usable_cores())
    prepare_run(run, plan, dataset, checkpoints)
    told = json.loads((run / RUN_FILE).read_text())
    told["trainer"]["threads"] = spec.threads or told["trainer"]["threads"]
    if on_disk:
        told["trainer"]["spill_directory"], told["reader"]["keeps_all"] = str(run), True
    (run / RUN_FILE).write_text(json.dumps(told))


def nested(fields: Mapping[str, Any]) -> dict:
    """Fields of a job, with the options of its solver that are among them; those of other solvers are left out."""
    general = {name: value for name, value in fields.items() if name not in OPTIONS}
    told = dict(fields)
    options = told.pop("solver_options", {})
    return {**general, "solver_options": {**migrate(told)["solver_options"], **options}}


def train(
    run: Path,
    dataset: Path,
    cache_bytes: int,
    positive: float | None = None,
    link: Callable[..., SharedState] = Turns,
    **settings: object,
) -> Outcome:
    """Train to the stop rule in this process; see `to_the_end`."""
    write_run(run, dataset, cache_bytes, positive, **settings)
    reader = Reader(run)
    try:
        passes, results = to_the_end(run, reader, link)
    finally:
        reader.shutdown()
    return Outcome(passes, results, open_state_of(run))


def open_state_of(run: Path) -> State:
    """The state of a run, of whatever size."""
    shape = json.loads((run / RUN_FILE).read_text())["trainer"]
    return open_state(run, shape["n_rows"], shape["width"], Tasks.of(shape["tasks"]).width)


def make_link(reader: Reader, link: Callable[..., SharedState] = Turns) -> MakeShared:
    """One that gives this reader turns: `link` takes what takes a turn before what a SharedState takes."""
    return lambda *args: link(reader.step, *args)


@contextmanager
def about_to_begin(
    run: Path, link: Callable[..., SharedState] = Turns, solvers: Mapping[str, Solver] = SMALL
) -> Iterator[tuple[Trainer, Reader]]:
    """The trainer of a run that has been laid out, and its reader, which has brought all that it can so far."""
    reader = Reader(run)
    while reader.step():
        pass
    cache = reader.cache_reader()
    try:
        yield Trainer(run, cache, make_link(reader, link), solvers), reader
    finally:
        cache.close()
        reader.shutdown()


def to_the_end(run: Path, reader: Reader, link: Callable[..., SharedState] = Turns) -> tuple[list[dict], list[dict]]:
    """Train with this reader to the stop rule; what each pass and the result of each lane came to."""
    while reader.step():
        pass
    cache = reader.cache_reader()
    trainer = Trainer(run, cache, make_link(reader, link), SMALL)
    passes = []
    while trainer.stop_reason is None:
        if (told := trainer.step()) is not None:
            passes.append(told)
    trainer.shutdown()
    assert reader.is_finished
    cache.close()
    return passes, trainer.results()
