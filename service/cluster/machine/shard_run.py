"""Reads a machine's shard, and runs a reader and a trainer on it; the agent passes on orders and reports."""

import json
import os
import secrets
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from streamsvm.reader.certificate.kept_values import read_held_out, read_weights
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.service.cluster.dataset.shards import Origin
from streamsvm.service.errors import needing_space, refusing
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.processes.run import PROCESSES, SHARD_TRAINER, ProcessRun, prepare_run
from streamsvm.service.processes.run_directories import has_room
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset, read_progress, staged_path
from streamsvm.storage.blocks.feature_files import FeatureWords, read_words
from streamsvm.storage.blocks.manifest import Manifest, Profile, read_manifest, read_profile, write_manifest
from streamsvm.storage.errors import DatasetCorrupt
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import FeatureStatistics, read_statistics
from streamsvm.storage.files.arrays import new_array
from streamsvm.storage.files.durable import publish
from streamsvm.storage.rows.csr import INDEX, Array
from streamsvm.storage.rows.row_runs import written_ids
from streamsvm.storage.run.state import OWN_W_FILE, REAL, RUN_FILE, State, backoff_sleep, open_state
from streamsvm.trainer.distributed.messages import Activity, Order, Report
from streamsvm.trainer.distributed.shard import ORDER, REPORT, scaled, send, take

# The shell leaves a grandchild, which outlives the actor: Ray ends only an actor's children with the actor.
_WAIT = 'exec 3<&0; (cat <&3; rm -rf -- "$0") > /dev/null 2>&1 &'


class DirectoryRemover:
    """A process that removes a directory when this process ends. `remove` removes the directory at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        reading, self._writing = os.pipe()
        subprocess.run(["sh", "-c", _WAIT, str(directory)], stdin=reading, start_new_session=True, check=True)
        os.close(reading)

    def remove(self) -> None:
        """Remove the directory before returning."""
        shutil.rmtree(self._directory, ignore_errors=True)
        os.close(self._writing)


@dataclass(frozen=True)
class ReadIn:
    """A shard that has been read in: its manifest, statistics, words, profile, and list of features."""

    manifest: Manifest
    statistics: FeatureStatistics | None
    words: FeatureWords | None
    profile: Profile | None
    listed: Array


class ShardReading:
    """Reads a shard in a thread. Callers poll `state`, then keep the shard by `settle` or remove it by `remove`.

    A shard that was not settled is removed when the process ends.

    directory  where `settle` puts the shard; it does not exist yet
    """

    def __init__(self, directory: Path, origin: Origin, number: int) -> None:
        self._final, self._origin, self._number = directory, origin, number
        self._work = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
        self._leftovers = DirectoryRemover(self._work)
        self._directory = self._work / "part"
        self._found: Future[Manifest] = Future()
        Thread(target=self._read, name="reading", daemon=True).start()

    def state(self) -> dict[str, Any] | ReadIn:
        """Return the progress (see `IngestProgress`), or the shard once read. Raises ServiceError: bad data."""
        own = self._directory
        if not self._found.done():
            return read_progress(staged_path(own)) or {}
        with refusing(InputError):
            found = self._found.result()
        listed = Dataset(own).listed() if found.listed else np.zeros(0, INDEX)
        return ReadIn(found, read_statistics(own), read_words(own), read_profile(own), listed)

    def settle(self, manifest: Manifest) -> None:
        """Keep the shard under this manifest. Raises DatasetCorrupt if it lists other blocks than those read in."""
        if read_manifest(self._directory).blocks != manifest.blocks:
            raise DatasetCorrupt("what was read in is not what it was before")
        write_manifest(self._directory, manifest)
        publish(self._directory, self._final)
        self.remove()

    def remove(self) -> None:
        """Remove the files of the shard that was read in."""
        self._leftovers.remove()

    def _read(self) -> None:
        origin, number = self._origin, self._number
        try:
            with needing_space():
                self._work.mkdir()
                part, settled = origin.shard(number), origin.settled.for_shard(number)
                found = ingest(part, self._directory, origin.options, origin.limits, schema=settled)
            self._found.set_result(found)
        except Exception as error:
            self._found.set_exception(error)


# A pass ends at the job's targets if machines train alone, else once the gap of its rows has fallen to this share.
_ALONE, _IN_ROUNDS = {"share_of_gap": 0.0}, {"share_of_gap": 0.75, "tolerance": None, "relative_gap": None}
_NO_END = 1 << 62  # passes
_MODULES = {**PROCESSES, "trainer": SHARD_TRAINER}
_LOOK_SECONDS = 0.1  # between two looks at whether the processes live


@dataclass(frozen=True)
class Begin:
    """The order to begin a run on a shard.

    job      name of the run, under which a machine saves its dual variables
    number, at_once   number of the first lane, and how many lanes are trained side by side at most
    machines number of machines, which is sigma: C of the shard is C of the job times this number
    maps     feature maps, fitted to all rows
    rows     ids of the shard's rows among all rows, in runs, see storage.rows.row_runs
    alpha    (rows,) or (rows, lanes) to begin with; None: the alpha that the machine has saved, or zeros
    """

    job: str
    shard: str
    spec: JobSpec
    number: int
    at_once: int
    machines: int
    maps: FeatureMaps
    rows: Array
    alpha: Array | None = None


class Running:
    """A run on the shard: `report`, then `follow` orders. Raises ServiceError (a process died), StorageError, OSError.

    alpha  (rows,) dual variables of the whole problem to begin with, feasible; None: zeros
    """

    def __init__(self, settings: Settings, begin: Begin, alpha: Array | None) -> None:
        dataset = settings.datasets / begin.shard
        self._plan = plan = _shard_plan(begin, read_manifest(dataset))
        self._sigma, self._rows = float(begin.machines), begin.rows
        job_dir = settings.jobs / begin.job / begin.shard
        job_dir.mkdir(parents=True, exist_ok=True)
        place = settings.cache_dir if has_room(settings.cache_dir, plan.run_bytes) else job_dir
        # A new name each time: the process that removes the directory of an earlier run may still be waiting.
        self._directory = place / f"streamsvm-shard-{begin.job}-{begin.shard}-{secrets.token_hex(4)}"
        self._leftovers = DirectoryRemover(self._directory)
        is_on_disk = place != settings.cache_dir
        begins = _beginning_at(alpha, self._sigma, plan)
        prepare_run(self._directory, plan, dataset, None, begins, begin.maps, is_on_disk)
        _tell_of_shard(self._directory, begin, plan)
        new_array(self._directory / OWN_W_FILE, REAL, (plan.width, plan.tasks.width))
        self._alpha = open_state(self._directory, plan.n_rows, plan.width, plan.tasks.width).alpha
        self._run = ProcessRun(self._directory, job_dir, settings.stall_seconds, _MODULES)
        self._run.start()

    def report(self) -> Report:
        """Wait for the trainer's report, and return it."""
        path, began, look = self._directory / REPORT, time.perf_counter(), 0.0
        while not path.exists():
            if time.perf_counter() > look:
                self._run.poll()
                look = time.perf_counter() + _LOOK_SECONDS
            backoff_sleep(began)
        n_bytes = path.stat().st_size
        return replace(take(path), n_bytes=n_bytes)

    def follow(self, order: Order) -> Report | None:
        """Pass an order on to the trainer; return the trainer's report, None after the last order."""
        send(self._directory / ORDER, order)
        if order.work is not Activity.END:
            return self.report()
        while not self._run.poll():
            time.sleep(_LOOK_SECONDS / 10)
        return None

    def alpha(self, part: slice = slice(None)) -> Array:
        """Return alpha of these rows in the whole problem, (n,) or (n, lanes); feasible between two rounds."""
        return self._alpha[part] / self._sigma

    def held_out(self, place: int) -> tuple[Array, Array, Array, Array | None]:
        """Return the rows that the lane at index `place` left out of training, as the last look has evaluated them.

        Four arrays (n,): ids among all rows, y, decision values, and weights; None instead if rows have none.
        """
        ids, target, decision_values = read_held_out(self._directory, self._plan.n_rows, place)
        weight = read_weights(self._directory, self._plan.n_rows)
        own = None if weight is None else np.asarray(weight[ids])
        return written_ids(self._rows, ids), target, decision_values, own

    def kill(self) -> None:
        """Kill the processes and remove their files."""
        self._run.close()
        self._leftovers.remove()


def has_own_boxes(spec: JobSpec, manifest: Manifest) -> bool:
    """Return whether rows differ in their bounds of alpha, or in curvature."""
    return spec.class_weight is not None or manifest.weights is not None


def has_whole_steps(spec: JobSpec, manifest: Manifest) -> bool:
    """Return whether the step of a round is always 1: D is no parabola along it, or rows differ in curvature."""
    loss = spec.loss_kind
    return not loss.is_quadratic or (loss.has_curvature and has_own_boxes(spec, manifest))


def _shard_plan(begin: Begin, manifest: Manifest) -> JobPlan:
    """Plan the running lanes on the shard, with sigma times C."""
    spec = begin.spec
    C = [begin.machines * each for each in spec.C] if isinstance(spec.C, list) else begin.machines * spec.C
    own = {"C": C, "max_passes": _NO_END, "max_seconds": None}
    return replace(plan_job(spec.model_copy(update=own), manifest), number=begin.number, at_once=begin.at_once)


def _beginning_at(alpha: Array | None, sigma: float, plan: JobPlan) -> Callable[[State], None]:
    """Return a function that fills a new state with sigma times this alpha; without alpha the state stays zero."""

    def begin(state: State) -> None:
        if alpha is not None and alpha.shape == state.alpha.shape:
            state.alpha[:] = scaled(alpha, sigma, plan.tasks, has_own_boxes(plan.spec, plan.manifest))
            state.control["w_unmade"] = 1

    return begin


def _tell_of_shard(directory: Path, begin: Begin, plan: JobPlan) -> None:
    """Add to run.json that reader and trainer work on one shard of the rows, and when a pass over the shard ends."""
    told = json.loads((directory / RUN_FILE).read_bytes())
    told["reader"]["part_rows"] = told["trainer"]["stored_rows"]["part_rows"] = begin.rows.tolist()
    told["trainer"] |= _ALONE if begin.spec.combine == "average" else _IN_ROUNDS
    about = plan.spec, plan.manifest
    told["shard"] = {
        "sigma": begin.machines, "whole_steps": has_whole_steps(*about), "own_boxes": has_own_boxes(*about)
    }  # fmt: skip
    (directory / RUN_FILE).write_text(json.dumps(told))
