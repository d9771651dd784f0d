"""Every write, sync and rename of what is durable, killed once and failed once: all of it is there, or what was before.

strace does it: `-e inject=CALL:signal=SIGKILL:when=N` for N = 1, 2, 3 ... until the operation is through.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from streamsvm.service.records.store import Store
from streamsvm.storage.blocks.dataset import faults
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.models.model_file import read_model
from streamsvm.storage.run.checkpoint import SLOTS, newest_checkpoint, write_checkpoint
from tests.faults.operations import OPERATIONS, upload
from tests.faults.scale import count

ROOT = Path(__file__).resolve().parents[2]
CALLS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "ftruncate", "unlink")
HARMS = {"killed": "signal=SIGKILL", "EIO": "error=EIO", "ENOSPC": "error=ENOSPC"}
MOST = count(1, 1000)  # of an operation

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def prepare(operation: str, directory: Path) -> None:
    """What is there before."""
    directory.mkdir()
    if operation == "append":
        upload(directory)
    elif operation == "submit":
        store = Store(directory / "store")
        with closing(sqlite3.connect(directory / "store")) as connection:
            connection.execute("INSERT INTO datasets (id, name, state, created_at) VALUES ('ds_1', 'd', 'ready', '')")
            connection.commit()
        store.add_job("ds_1", {"number": 1})
    elif operation == "checkpoint":
        write_checkpoint(directory / SLOTS[1], {"number": 1}, {"alpha": np.ones(50)})


def what_is_there(operation: str, directory: Path) -> int:
    """0: what was there before, 1: what the operation makes; an assertion fails for anything else."""
    if operation in ("upload", "append"):
        final = directory / "dataset"
        if not final.exists():
            return 0
        assert list(faults(final)) == []
        return read_manifest(final).n_rows // 40 - (operation == "append")
    if operation == "submit":
        jobs = Store(directory / "store").jobs()
        assert [job["spec"]["number"] for job in jobs] in ([1], [2, 1])
        return len(jobs) - 1
    if operation == "checkpoint":
        found = newest_checkpoint(directory)
        assert found["alpha"].ravel().tolist() == [float(found.about["number"])] * 50
        return found.about["number"] - 1
    try:
        return int(read_model(directory / "model").w.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0])
    except CorruptData:
        assert not (directory / "model").exists()
        return 0


def run(operation: str, directory: Path, *strace: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tests.faults.operations", operation, str(directory)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    # -y tells files by name: only what lies in the directory counts.
    prefix = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-o", str(directory) + ".trace", *strace] if strace else []
    return subprocess.run(
        [*prefix, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def places(operation: str, directory: Path) -> dict[str, list[int]]:
    """Of each name which calls of a thread, from 1, have to do with the directory: strace counts by thread."""
    done = run(operation, directory, "-e", f"trace={','.join(CALLS)}")
    assert done.stdout == "acknowledged\n", done.stderr
    if "Operation not permitted" in done.stderr:
        pytest.skip("may not trace processes")
    found: dict[str, set[int]] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for line in Path(f"{directory}.trace").read_text().splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if match:
            numbers[match[1], match[2]] += 1
            if str(directory) in match[3]:
                found.setdefault(match[2], set()).add(numbers[match[1], match[2]])
    return {call: sorted(places) for call, places in found.items()}


def harm(operation: str, directory: Path, fault: tuple[str, int, str]) -> None:
    """Do the operation with the fault at one of its calls; what was acknowledged has to be there."""
    call, number, how = fault
    prepare(operation, directory)
    done = run(operation, directory, "-e", f"trace={call}", "-e", f"inject={call}:{HARMS[how]}:when={number}")
    there = what_is_there(operation, directory)
    if done.stdout == "acknowledged\n":
        assert there == 1, fault
    shutil.rmtree(directory)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_or_nothing_at_every_call(tmp_path, operation, rng):
    prepare(operation, tmp_path / "whole")
    calls = places(operation, tmp_path / "whole")
    assert what_is_there(operation, tmp_path / "whole") == 1
    assert {"fsync", "fdatasync"} & calls.keys()
    every = [(call, number, how) for call, numbers in calls.items() for number in numbers for how in HARMS]
    picked = [every[k] for k in rng.choice(len(every), min(MOST, len(every)), replace=False)]
    directories = [tmp_path / f"{call}-{number}-{how}" for call, number, how in picked]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(harm, operation), directories, picked))
    print(f"{operation}: {len(picked)} of {len(every)} faults")
