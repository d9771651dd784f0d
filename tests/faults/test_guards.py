"""Each guard is switched off once, and what it guards against then happens: the tests of it can fail.

(Of syncs, see test_power_cut.)
"""

import signal
import subprocess
import zlib
from contextlib import suppress

import pytest

import streamsvm.service.processes.health
import streamsvm.storage.blocks.block
import streamsvm.storage.files.durable
from streamsvm.reader.stream.resume import WeightCheck
from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.health import lock
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.processes.run import ProcessRun
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import CheckpointUnsound, DatasetCorrupt
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.newton.scans import Interrupted, go_on
from streamsvm.trainer.shared_state import SharedState
from tests.faults.test_flips import make_a_dataset, rows_of
from tests.trainer.test_resume import Job, dataset, newest_checkpoint, write_checkpoint  # noqa: F401 - a fixture


class NoSums:
    """zlib whose checksums are all the same."""

    def __getattr__(self, name):
        return getattr(zlib, name)

    @staticmethod
    def crc32(_data):
        return 0


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def trained_on_a_damaged_block(tmp_path):
    """Whether rows are read from a block with a bit flipped in the columns, and are others than before."""
    root = make_a_dataset(tmp_path / "d")
    sound = rows_of(root)
    block = sorted(root.glob("blocks/*.blk"))[0]
    location = Dataset(root).pieces(0)[0]
    found = []
    for place in range(int(location["offset"]) + 40, int(location["offset"]) + 100):
        flip(block, place)
        with suppress(DatasetCorrupt):
            found.append(rows_of(root) != sound)
        flip(block, place)
    return any(found)


def test_checksums_of_blocks(tmp_path, monkeypatch):
    assert not trained_on_a_damaged_block(tmp_path / "guarded")
    # Of the dataset as it is written, too: all agree on a sum that says nothing.
    monkeypatch.setattr(streamsvm.storage.blocks.block, "zlib", NoSums())
    assert trained_on_a_damaged_block(tmp_path / "unguarded")


def test_checksums_of_manifests(tmp_path, monkeypatch):
    root = make_a_dataset(tmp_path / "d")
    n_rows = Dataset(root).manifest.n_rows
    manifest = root / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"n_rows": {n_rows}', f'"n_rows": {n_rows - 1}'))
    with pytest.raises(DatasetCorrupt):
        Dataset(root)
    monkeypatch.setattr(streamsvm.storage.files.durable, "_checksum", lambda _: None)
    monkeypatch.setattr(
        streamsvm.storage.files.durable.json, "loads", _without_sum(streamsvm.storage.files.durable.json.loads)
    )
    assert Dataset(root).manifest.n_rows == n_rows - 1


def _without_sum(loads):
    return lambda data: {**loads(data), "checksum": None}


def test_the_weights_of_checkpoints_are_compared(tmp_path, dataset, monkeypatch):  # noqa: F811
    def resumed():
        job = Job(tmp_path / str(len(list(tmp_path.iterdir()))), dataset)
        job.attempt(killed_at=2)
        sound = newest_checkpoint(job.checkpoints)
        arrays = sound.arrays()
        arrays["w"] = arrays["w"] + 1e-3
        write_checkpoint(sound.path, {**sound.about, "number": 99}, arrays)
        return job.attempt()

    with pytest.raises(CheckpointUnsound):
        resumed()
    monkeypatch.setattr(WeightCheck, "finish", lambda _check: None)
    assert resumed() is not None


def test_one_worker_for_a_data_directory(tmp_path, monkeypatch):
    lock(tmp_path, "worker")
    with pytest.raises(ServiceError):
        lock(tmp_path, "worker")
    monkeypatch.setattr(streamsvm.service.processes.health.fcntl, "flock", lambda *_: None)
    assert lock(tmp_path, "worker")


class Silent:
    """A process that neither ends nor gives a sign."""

    @staticmethod
    def poll():
        return None


def test_silent_processes_are_noticed(tmp_path, monkeypatch):
    run = object.__new__(ProcessRun)
    run.directory, run._log, run._stall_seconds = tmp_path, tmp_path / "log", 1.0
    run.control, run._started = create_state(tmp_path, 1, 1).control, -1e9
    run._children = {"reader": Silent, "trainer": Silent}
    with pytest.raises(ServiceError, match="fell silent"):
        run.poll()
    monkeypatch.setattr(ProcessRun, "_silence", lambda *_: 0.0)
    assert not run.poll()


def test_a_trainer_may_say_for_how_long_it_will_be_silent(tmp_path):
    """While LAPACK works no thread of the process can give a sign of life."""
    state = create_state(tmp_path, 1, 1)
    shared, run = SharedState(state, deferred=False), object.__new__(ProcessRun)
    run.control, run._started = state.control, -1e9
    shared.beat()
    go_on(shared, 100.0)
    assert -100.0 <= run._silence("trainer") < -90.0
    shared.beat()
    assert 0.0 <= run._silence("trainer") < 10.0
    state.control["stop"] = 1
    with pytest.raises(Interrupted):
        go_on(shared, 100.0)


class Stopped:
    """A worker that gives no sign, until someone else lets it go on and it ends."""

    def __init__(self):
        self._looks, self._is_killed = 0, False

    def wait(self, seconds):
        self._looks += 1
        if self._is_killed:
            return -signal.SIGKILL
        if self._looks < 5:
            raise subprocess.TimeoutExpired("worker", seconds)
        return 0

    def kill(self):
        self._is_killed = True


def test_silent_workers_are_noticed(tmp_path):
    keeper = WorkerKeeper(Settings(tmp_path, stall_seconds=0))
    assert keeper._watch(Stopped()) == -signal.SIGKILL
    keeper._patience = float("inf")
    assert keeper._watch(Stopped()) == 0
