"""The agent of a machine: reads in and keeps its shards, runs a reader and a trainer on one, and reports on them."""

import contextlib
import io
import os
import shutil
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.cluster.dataset.shards import Origin
from streamsvm.service.cluster.machine.shard_run import Begin, ReadIn, Running, ShardReading
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import faults, publish_dataset, staged_path
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from streamsvm.storage.errors import DatasetCorrupt, StorageError
from streamsvm.storage.files.arrays import load_array
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.distributed.messages import Order, Report

ROOT_VARIABLE = "STREAMSVM_NODE_DIR"  # variable of a node's environment: directory of its blocks
_DEFAULT_ROOT = "/var/tmp/streamsvm"
_KEPT_SECONDS = 7 * 86400
_STAGED_SECONDS = 86400  # age at which an unfinished shard is removed


class Agent:
    """A machine of a cluster: `receive` and `complete` a shard, `begin` a run, `follow` order by order, `end` the run.

    root  directory for all files of the machine; None: the one that its node's environment names
    """

    def __init__(self, root: Path | None = None) -> None:
        self._settings = Settings.from_environment(root or Path(os.environ.get(ROOT_VARIABLE, _DEFAULT_ROOT)))
        self._settings.create_directories()
        self._running: Running | None = None
        self._reading: ShardReading | None = None
        for directory in (self._settings.datasets, self._settings.jobs):
            _tidy(directory)

    def about(self) -> tuple[str, list[str]]:
        """Return the version of StreamSVM on this node, and the names of the complete shards on it."""
        shards = sorted(path.name for path in self._settings.datasets.iterdir() if not path.name.startswith("."))
        return version("streamsvm"), shards

    # Shards

    def receive(self, shard: str, file: str, piece: bytes, is_first: bool) -> None:
        """Append a piece to a file of a shard; the first piece begins the file anew. Raises OSError."""
        path = staged_path(self._settings.datasets / shard) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if is_first else "ab") as out:
            out.write(piece)

    def complete(self, shard: str, manifest: Manifest) -> None:
        """Check every byte of a shard that has arrived, and keep the shard. Raises StorageError if a file changed."""
        directory = self._settings.datasets / shard
        publish_dataset(staged_path(directory), directory, manifest)
        for fault in faults(directory):
            self.drop(shard)
            raise fault

    def settle(self, shard: str, manifest: Manifest) -> None:
        """Keep the shard that was read in, under this manifest. Raises DatasetCorrupt if it lists other blocks."""
        assert self._reading is not None
        try:
            self._reading.settle(manifest)
        except DatasetCorrupt:
            self.drop(shard)
            raise
        self._reading = None

    def read_in(self, shard: str, origin: Origin, number: int) -> None:
        """Start to read in a shard of a source, after removing what an earlier attempt has read."""
        self.drop(shard)
        self._reading = ShardReading(self._settings.datasets / shard, origin, number)

    def reading(self) -> dict[str, Any] | ReadIn:
        """Return the state of the shard that is being read in, see `ShardReading.state`."""
        assert self._reading is not None
        return self._reading.state()

    def drop(self, shard: str) -> None:
        """Remove a shard, or the part of it that has been read in."""
        directory = self._settings.datasets / shard
        for path in (directory, staged_path(directory)):
            shutil.rmtree(path, ignore_errors=True)
        if self._reading is not None:
            self._reading.remove()
            self._reading = None

    # Dual variables of runs, which any machine may keep

    def keep(self, job: str, shard: str, alpha: Array) -> None:
        """Save dual variables of a run on this shard, durably; the shard may be another machine's. Raises OSError."""
        path = self._kept_path(job, shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.save(content, alpha)
        write_file(path, [content.getvalue()])

    def keep_own(self, job: str, shard: str) -> Array:
        """Save the present dual variables, and return them for another machine to save as well."""
        alpha = self.alpha()
        self.keep(job, shard, alpha)
        return alpha

    def has_kept(self, job: str, shard: str) -> bool:
        """Return whether dual variables of this job and shard are saved here."""
        return self._kept_path(job, shard).exists()

    def kept(self, job: str, shard: str) -> Array | None:
        """Read the dual variables saved last for this job and shard; None: there are none, or the file is damaged."""
        try:
            return load_array(self._kept_path(job, shard))
        except (FileNotFoundError, ValueError, EOFError):
            return None

    def _kept_path(self, job: str, shard: str) -> Path:
        return self._settings.jobs / job / f"{shard}.npy"

    def forget(self, job: str) -> None:
        """Remove all files of a job, or of a lane of a job, that has ended."""
        for directory in (self._settings.jobs / job, *self._settings.jobs.glob(f"{job}-*")):
            shutil.rmtree(directory, ignore_errors=True)

    # A run

    def begin(self, begin: Begin) -> Report:
        """Start a reader and a trainer; return their first report. Raises ServiceError, StorageError, OSError."""
        self.end()
        (self._settings.datasets / begin.shard).touch()  # the shard is in use: see `_tidy`
        kept = begin.alpha if begin.alpha is not None else self.kept(begin.job, begin.shard)
        self._running = Running(self._settings, begin, kept)
        return self._running.report()

    def follow(self, order: Order, alpha: Array | None = None) -> Report | None:
        """Do what the order says; return the report, None after the last order. Raises ServiceError.

        alpha  the new alpha of exported rows, if there is one
        """
        assert self._running is not None
        return self._running.follow(replace(order, alpha=alpha))

    def alpha(self, part: slice = slice(None)) -> Array:
        """Return the present alpha of rows of this shard, in the scale of the whole problem: not times sigma."""
        assert self._running is not None
        return self._running.alpha(part)

    def held_out(self, place: int) -> tuple[Array, Array, Array, Array | None]:
        """Return the rows that a lane left out of training, see `Running.held_out`."""
        assert self._running is not None
        return self._running.held_out(place)

    def end(self) -> None:
        """Stop the run and remove its files."""
        if self._running is not None:
            self._running.kill()
            self._running = None


def _tidy(directory: Path) -> None:
    """Remove files unused for a week: shards of datasets deleted elsewhere, and files of jobs that never ended.

    Unfinished shards go after a day. A shard that was read in on this machine stays until it is dropped, since the
    service has no copy of it.
    """
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            most = _STAGED_SECONDS if path.name.startswith(".") else _KEPT_SECONDS
            if time.time() - path.stat().st_mtime > most and not _is_part(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_part(path: Path) -> bool:
    try:
        return bool(read_manifest(path).parts)
    except (StorageError, OSError):
        return False
