"""A power cut with an honest disk: what was synced is there, anything else may be or not. Nothing acknowledged is lost.

The operations' file system is an image. While they go on it is copied as it lies on the disk, without a sync: what
only the kernel's memory holds is not in the copy. Mounted, the copy is what a machine would find that lost its power.
The images lie in memory. After some cuts there is a new one, before it is full.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from sqlite3 import connect

import numpy as np
import pytest

from streamsvm.service.errors import Crash
from streamsvm.service.jobs.lanes.lane_files import abouts_of, held_out, outcome_of
from streamsvm.service.records.store import Store
from streamsvm.storage.blocks.dataset import faults
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.models.model_file import read_model
from streamsvm.storage.run.checkpoint import read_checkpoint
from tests.faults.endless import LANES_OF_FOLDS
from tests.faults.scale import count

ROOT = Path(__file__).resolve().parents[2]
CUTS = count(2, 500)
CUTS_A_DISK = 25
SIDE_BY_SIDE = 2
IMAGE_BYTES = 48 << 20
LONGEST_SECONDS = 0.4


def mount(image: Path, at: Path) -> None:
    at.mkdir(exist_ok=True)
    command = ["mount", "-o", "loop,data=ordered,commit=300", str(image), str(at)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount an image")


def unmount(at: Path) -> None:
    subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.fixture
def memory(tmp_path, small_disk):
    """A directory for images."""
    if os.geteuid() or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs the rights to mount an image, and mkfs.ext4")
    small_disk(tmp_path / "memory", 4 * SIDE_BY_SIDE * IMAGE_BYTES)
    return tmp_path / "memory"


@contextmanager
def disk(directory: Path):
    """(image, where it is mounted)"""
    directory.mkdir()
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mount(image, directory / "disk")
    try:
        yield image, directory / "disk"
    finally:
        unmount(directory / "disk")
        shutil.rmtree(directory)


@contextmanager
def writer(directory: Path, *switches: str):
    """Uploads, submits, makes checkpoints and models without end, and says what it has acknowledged."""
    command = [sys.executable, "-m", "tests.faults.endless", str(directory), *switches]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, bufsize=0) as child:
        os.set_blocking(child.stdout.fileno(), False)
        try:
            yield child
        finally:
            child.kill()


def heard_of(child: subprocess.Popen) -> list[str]:
    """What it has said since; a writer that has died would be no trial."""
    if child.poll() is not None:
        raise ChildProcessError(f"the writer ended with {child.returncode}")
    return (child.stdout.read() or b"").decode().splitlines()


def cut(image: Path, copy: Path) -> None:
    """The image as it lies on the disk at one moment: a copy during which the kernel wrote to it would be none."""
    is_whole = False
    while not is_whole:
        subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
        is_whole = subprocess.run(["cmp", "-s", str(image), str(copy)], check=False).returncode == 0


def lost(directory: Path, acknowledged: list[str]) -> list[str]:
    """What of it is not there as it was; damage that nobody was told of the contrary of counts, too."""
    missing = []
    newest_checkpoint = 0
    for line in acknowledged:
        kind, number, *more = line.split()
        if kind == "upload":
            missing += [line] if any(True for _ in faults(directory / f"dataset{number}")) else []
        elif kind == "publish":
            missing += [line] if read_model(directory / f"model{number}").w[0] != int(number) else []
        elif kind == "lanes":
            missing += [line] if lanes_there(directory / f"job{number}") < int(more[0]) else []
        elif kind == "checkpoint":
            newest_checkpoint = int(number)
    jobs = {str(job["spec"]["number"]) for job in Store(directory / "store").jobs()}
    missing += [line for line in acknowledged if line.startswith("submit ") and line.split()[1] not in jobs]
    if newest_checkpoint and read_checkpoint(directory / "checkpoint.0").about["number"] < newest_checkpoint:
        missing.append(f"checkpoint {newest_checkpoint}")
    with closing(connect(directory / "store")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for job_dir in directory.glob("job*"):
        lanes_there(job_dir)
    for published in [*directory.glob("dataset*"), *directory.glob("model*")]:
        read_manifest(published) if published.name.startswith("dataset") else read_model(published)
    return missing


def lanes_there(job_dir: Path) -> int:
    """How many of a job count as done; raises Crash if one does whose files are not all there."""
    n_done = len(abouts_of(job_dir))
    for number in range(n_done):
        outcome_of(job_dir, number)
        if number < LANES_OF_FOLDS:
            held_out(job_dir, number)
    return n_done


def ordeal(memory: Path, rng: np.random.Generator, cuts: int, *switches: str) -> tuple[int, list[str]]:
    """How much was acknowledged on a new disk, and what of it was lost in so many cuts."""
    seen, missing = 0, []
    directory = memory / rng.bytes(4).hex()
    with disk(directory) as (image, mounted), writer(mounted, *switches) as child:
        acknowledged: list[str] = []
        while not acknowledged:
            acknowledged += heard_of(child)
            time.sleep(0.05)
        for _ in range(cuts):
            time.sleep(float(rng.uniform(0, LONGEST_SECONDS)))
            # What is heard now was said before; it may do more before it is stopped.
            acknowledged += heard_of(child)
            child.send_signal(signal.SIGSTOP)
            cut(image, directory / "copy")
            mount(directory / "copy", directory / "found")
            try:
                missing += lost(directory / "found", acknowledged)
            finally:
                unmount(directory / "found")
                # The next one is another file, whatever still holds on to this one.
                (directory / "copy").unlink()
                child.send_signal(signal.SIGCONT)
            seen = len(acknowledged)
    return seen, missing


def test_nothing_acknowledged_is_lost(memory, rng):
    shares = np.diff([*range(0, CUTS, CUTS_A_DISK), CUTS]).tolist()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        ends = list(pool.map(partial(ordeal, memory), rng.spawn(len(shares)), shares))
    assert [missing for _, missing in ends if missing] == []
    print(f"{CUTS} cuts, {sum(seen for seen, _ in ends)} operations acknowledged")


def test_without_syncs_something_is_lost(memory, rng):
    """The guard switched off: this test can see what it is there for."""
    with pytest.raises((AssertionError, StorageError, Crash)):
        _, missing = ordeal(memory, rng, 3, "--unsynced")
        assert missing == []
