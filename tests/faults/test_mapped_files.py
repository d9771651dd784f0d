"""Mapped files of a run on a full disk: a process that uses one is told so, and does not die of signal 7."""

import json
import subprocess
import sys
from pathlib import Path

from streamsvm.storage.errors import OutOfSpace

ROOT = Path(__file__).resolve().parents[2]
DISK_BYTES = 2 << 20

# Each begins with a disk that is full but for one page, `full`, and an empty one.
USES = {
    "state": "create_state(full, 5_000, 5_000).alpha[:] = 1",
    "held_out": "HeldOut(full, 5_000).put(0, np.arange(5_000), np.ones(5_000), np.ones(5_000))",
    "weights": "held = HeldOut(empty, 5_000); fill(empty); held.put_weights(np.arange(10), np.ones(10))",
    "round": "create_round(full, 5_000, 1).own_w[:] = 1",
    "cache": "fill(full, 0); CacheWriter(full / CACHE_FILE, plan_cache(1 << 20, 100))",
    "rows of an upload": """
state = create_state(empty, 1 << 30, 1 << 20, True)
room = StateRoom(state)
room.take(10, 10)
fill(empty)
for n_rows in range(10, 1_000_000, 10_000):
    room.take(n_rows, 10)
    state.score[n_rows - 1] = state.alpha[n_rows - 1, 0]
""",
    "features of an upload": """
state = create_state(empty, 1 << 30, 1 << 27, True)
room = StateRoom(state)
room.take(10, 10)
fill(empty)
for width in range(10, 1_000_000, 10_000):
    room.take(10, width)
    state.w[width - 1] = 1
""",
}
PROGRAM = """
import json
import os
import sys
from pathlib import Path
import numpy as np
from streamsvm.reader.certificate.folds import HeldOut
from streamsvm.storage.errors import OutOfSpace
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.run.failure import telling
from streamsvm.storage.run.rounds import create_round
from streamsvm.storage.run.state import CACHE_FILE, StateRoom, create_state

def fill(disk, pages=1):
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            file.truncate(file.tell() - (pages << 12))

def outcome(use, full, empty):
    # The exit code of a process that uses them, or minus its signal.
    if (child := os.fork()) == 0:
        fill(full)
        with telling(full):
            exec(use)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(json.dumps({name: outcome(use, *map(Path, disks)) for name, use, *disks in json.load(sys.stdin)}))
"""


def test_a_full_disk_is_told(tmp_path, small_disk):
    tried = []
    for number, (name, use) in enumerate(USES.items()):
        disks = [str(tmp_path / f"{kind}{number}") for kind in ("full", "empty")]
        for disk in disks:
            small_disk(Path(disk), DISK_BYTES)
        tried.append((name, use, *disks))
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, cwd=ROOT, input=json.dumps(tried), text=True, capture_output=True, check=True)
    assert json.loads(ended.stdout) == dict.fromkeys(USES, OutOfSpace.exit_code), ended.stderr
