"""Runs a peer in a process of its own and collects what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

import psutil

from tests.bench.curve import Point
from tests.bench.peers import PEERS
from tests.bench.peers.__main__ import CANNOT_RUN
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent

MOST_SECONDS = 60  # of all trials together


@dataclass(frozen=True)
class Measured:
    """
    points         a trial each
    loaded_bytes   peak memory of the process while it made ready
    peak_bytes     and while it trained
    cannot_run     why there are no points, if there are none
    """

    points: tuple[Point, ...] = ()
    loaded_bytes: int | None = None
    peak_bytes: int | None = None
    cannot_run: str | None = None


def measure(name: str, data: Prepared, C: float, enough: float) -> Measured:
    """Run a peer until its objective is `enough`, or it has no other setting, or it has run for MOST_SECONDS."""
    lacking = _lacking_memory(name, data)
    if lacking:
        return Measured(cannot_run=lacking)
    command = [sys.executable, "-m", "tests.bench.peers", name, data.directory, C, enough, MOST_SECONDS]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, CANNOT_RUN):
        return Measured(cannot_run=f"failed with exit code {done.returncode}")
    return collect(done.stdout.splitlines())


def collect(lines: Iterable[str]) -> Measured:
    """What a peer's process printed."""
    records = [json.loads(line) for line in lines]
    if "cannot_run" in records[-1]:
        return Measured(cannot_run=records[-1]["cannot_run"])
    loaded, *trials = records
    points = tuple(_point(**trial) for trial in trials)
    return Measured(points, loaded["loaded_bytes"], max(trial["peak_bytes"] for trial in trials))


def _point(setting: str, objective: float, seconds: float, core_seconds: float | None, **_: int) -> Point:
    return Point(Spent(seconds, core_seconds), objective, setting)


def seconds_are(name: str) -> str:
    """What the seconds of a peer cover."""
    try:
        return import_module(f"tests.bench.peers.{PEERS[name][0]}").SECONDS_ARE
    except ImportError:
        return ""


def _lacking_memory(name: str, data: Prepared) -> str | None:
    try:
        each = import_module(f"tests.bench.peers.{PEERS[name][0]}").BYTES_PER_VALUE
    except ImportError:
        return None  # its own process says why
    needed, available = (each or 0) * data.nnz, psutil.virtual_memory().available
    if needed <= 0.9 * available:
        return None
    return f"needs about {needed / 1e9:.0f} GB of memory, {available / 1e9:.0f} are free"
