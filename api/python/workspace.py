"""Trains without a server: runs the service's ingest, planning and training in a temporary directory."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

from threadpoolctl import threadpool_limits

from streamsvm.errors import tell, tell_slower
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.ingesting import Ingesting
from streamsvm.service.errors import DIED, ServiceError, needing_space
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.warm_start import can_grow, grow
from streamsvm.service.jobs.plan.forecast import planned_on
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.jobs.progress.progress import HISTORY, read_history
from streamsvm.service.local import LocalTraining, Trained, interrupting
from streamsvm.service.settings import Settings
from streamsvm.sources import Source, Stream
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest, read_manifest, read_profile
from streamsvm.storage.errors import StorageError
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.slowdowns import bits_of, told
from streamsvm.storage.run.state import State

# Smaller data are read and trained on in this process: starting others takes a second or two.
SMALL_BYTES = 32 << 20

# A function that gets progress and history, as `service.local.Report`, and returns whether training is to end.
Watch = Callable[[dict[str, Any], list[dict[str, Any]]], bool]


class TrainingOutcome(NamedTuple):
    """The outcome of training.

    trained      models, and figures of cross-validation
    history      an entry for each pass
    was_stopped  whether an interrupt, or a callback, ended training
    is_numbered  whether rows came from files or tables, which number their features
    beside       options whose columns were appended to a frame, see `Stream`
    forecast     codes of the slowdowns that were warned of when training began
    """

    trained: Trained
    history: list[dict[str, Any]]
    was_stopped: bool
    is_numbered: bool
    beside: tuple[str, ...]
    forecast: frozenset[str]


class _Before(NamedTuple):
    """The last training of a workspace: its plan, its directory of checkpoints, and its rows, as runs of ids."""

    plan: JobPlan
    checkpoints: Path
    rows: Array


class Workspace:
    """A dataset in a temporary directory that is removed with this object: `add` rows, then `train`.

    size   bytes of all rows to come, None if unknown; a small dataset is kept in memory
    keeps  whether more rows will come: each training keeps a checkpoint, from which the next training starts
    is_numbered, beside   see `TrainingOutcome`
    """

    def __init__(self, size: int | None = None, keeps: bool = False) -> None:
        self._settings = Settings.from_environment()
        in_memory = _is_small(size) and not keeps and self._settings.cache_dir.is_dir()
        base = self._settings.cache_dir if in_memory else None
        self._work = Path(tempfile.mkdtemp(prefix=f"streamsvm-{os.getpid()}-", dir=base))
        self._remove = weakref.finalize(self, shutil.rmtree, self._work, ignore_errors=True)
        self._dataset = self._work / "dataset"
        self._keeps = keeps
        self._before: _Before | None = None
        self._trainings = 0
        self.is_numbered = True
        self.beside: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether rows have been added, and ingest has read them as a table, from frames."""
        return self._dataset.exists() and (self.manifest.input or {}).get("format") == "arrow"

    @property
    def manifest(self) -> Manifest:
        """The manifest of the rows so far."""
        return read_manifest(self._dataset)

    def label_weights(self) -> Mapping[float, float]:
        """Map each label to the number of its rows, or to the sum of their weights if they have weights."""
        manifest = self.manifest
        return manifest.labels if manifest.weights is None else Dataset(self._dataset).label_weights()

    def close(self) -> None:
        """Remove the directory with the dataset and all trainings."""
        self._remove()

    def add(self, source: Source) -> None:
        """Add the rows of a source to the dataset; after the first source, issue the warnings about its columns."""
        is_first = not self._dataset.exists()
        self._read(source)
        profile = read_profile(self._dataset) if is_first else None
        tell(profile.warnings if profile else ())

    def _read(self, source: Source) -> None:
        if isinstance(source, Stream):
            self.is_numbered &= source.options.format != "batches"
            self.beside = self.beside if self._dataset.exists() else source.beside
            self._add_stream(source)
            return
        for elsewhere, paths in groupby(source.paths, lambda path: isinstance(path, str)):
            if elsewhere:
                self._read_apart(list(map(str, paths)), source.options)
                continue
            for path in map(Path, paths):
                with path.open("rb") as file:
                    if _is_small(source.size):
                        self._read_here(read_chunks(file), source.options)
                    else:
                        self._read_apart(file, source.options)

    def train(self, fields: Mapping[str, Any], report: Watch) -> TrainingOutcome:
        """Train on all rows so far. An interrupt, or `report` returning True, ends training with the models so far."""
        plan = plan_job(parse_spec({"dataset": "data", **fields}), self.manifest)
        work = self._work / f"training{self._trainings}"
        self._trainings += 1
        work.mkdir()
        checkpoints, begins = self._warm(plan, work)
        is_inline = _is_small(self.manifest.decoded_bytes)

        def watch(progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
            if report(progress, history):
                training.stop()

        forecast = planned_on(plan, self._dataset)
        tell_slower(told(bits_of(forecast)))
        training = LocalTraining(
            work, self._dataset, self._settings, watch, is_inline=is_inline, checkpoints=checkpoints, begins=begins
        )
        # Otherwise BLAS takes all cores, for products so small that its threads wait for each other. With one thread,
        # as in processes of jobs, the number of cores changes no byte of a model.
        with interrupting(training.stop), _telling(), threadpool_limits(1, "blas"):
            trained = training.all_lanes(plan)
        self._keep(plan, checkpoints)
        return TrainingOutcome(
            trained, read_history(work / HISTORY), training.is_stopping, self.is_numbered, self.beside, forecast
        )

    def _warm(self, plan: JobPlan, work: Path) -> tuple[Path | None, Callable[[State], None] | None]:
        """Return a directory for checkpoints (or None), and a function that restores the last training (or None)."""
        if not (self._keeps and len(plan.lanes) == 1):
            return None, None
        checkpoints = work / "checkpoints"
        checkpoints.mkdir()
        before = self._before
        if before is None or not can_grow(before.plan, plan):
            return checkpoints, None
        rows = Dataset(self._dataset).row_runs()
        C, then = before.plan.lane.C, before.rows
        return checkpoints, partial(grow, plan=plan, before_C=C, checkpoints=before.checkpoints, then=then, now=rows)

    def _keep(self, plan: JobPlan, checkpoints: Path | None) -> None:
        if self._before is not None:
            shutil.rmtree(self._before.checkpoints.parent, ignore_errors=True)
        self._before = None if checkpoints is None else _Before(plan, checkpoints, Dataset(self._dataset).row_runs())

    def _add_stream(self, source: Stream) -> None:
        first, rest = _begun(source)
        if rest is None:
            self._read_here(first, source.options)
            return
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb") as pipe:
            self._read_apart(file, source.options, partial(_write, pipe, chain(first, rest), file))

    def _read_here(self, chunks: Any, options: InputOptions) -> None:
        limits = InputLimits(max_features=self._settings.max_features, max_bytes=self._settings.max_upload_bytes)
        read = append_rows if self._dataset.exists() else ingest
        read(chunks, self._dataset, options, limits, threads=1)

    def _read_apart(
        self, file: IO[bytes] | list[str], options: InputOptions, write: Callable[[], None] | None = None
    ) -> None:
        """Have a child process read rows from `file`; `write`, if given, writes the rows to the child's pipe."""
        appends = self._dataset.exists()
        with Ingesting(file, self._dataset, self._settings, options, appends=appends) as ingesting:
            if write:
                write()
            ingesting.wait()


@contextmanager
def _telling() -> Iterator[None]:
    """Turn unexpected errors into ServiceError DIED, as if a job's process had died, since this process may train."""
    try:
        with needing_space():
            yield
    except (ServiceError, StorageError, InputError):
        raise
    except Exception as error:
        what = f"training failed, {type(error).__name__}: {error}"
        raise ServiceError(DIED, what, "It is a fault of StreamSVM: report it with this traceback.") from error


def _is_small(size: int | None) -> bool:
    return size is not None and size <= SMALL_BYTES


def _begun(source: Stream) -> tuple[Iterable[bytes], Iterator[bytes] | None]:
    """Return the first chunks of a stream, and the iterator of the rest; None instead of it if all are in the first.

    An iterator that fails at once thus fails before a child process starts.
    """
    if _is_small(source.size):
        return source.chunks, None
    first, size = list[bytes](), 0
    for chunk in source.chunks:
        first.append(chunk)
        size += len(chunk)
        if source.size is not None or size > SMALL_BYTES:
            return first, source.chunks
    return first, None


def _write(pipe: IO[bytes], chunks: Any, other_end: IO[bytes]) -> None:
    other_end.close()  # only the reading process has this end now, so that its death breaks the pipe
    try:
        with pipe:
            for chunk in chunks:
                pipe.write(chunk)
    except BrokenPipeError:
        pass  # the reading process has ended with an error, which `wait` raises
