"""What the interface costs an upload: the same text sent over HTTP, and read in by the command behind it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from streamsvm.reader.ingest.run import ingest, read_chunks
from tests.bench.generate import generate
from tests.end_to_end.service import Service

TEXT_BYTES = 500_000_000
REPEATS = 3


class Taken(NamedTuple):
    """Seconds on the clock, those in which a thread of the service computed, and those of the client."""

    seconds: float
    core_seconds: float
    client_seconds: float = 0.0


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as name:
        directory = Path(name)
        text, small = directory / "text", directory / "small"
        generate(text, size_bytes=TEXT_BYTES)
        generate(small, size_bytes=1_000_000)
        with small.open("rb") as file:
            ingest(read_chunks(file), directory / "compiled")
        with _serving(directory) as service:
            yield from table(text, lambda: _command(text, directory / "data"), lambda: _upload(text, service))


def table(text: Path, command: Callable[[], Taken], upload: Callable[[], Taken]) -> Iterator[str]:
    """The two in turn."""
    found = [(command(), upload()) for _ in range(REPEATS)]
    megabytes = text.stat().st_size / 1e6
    yield f"Median of {REPEATS} uploads of {megabytes:.0f} MB of text-like data (`tests.bench.generate`) with `curl -T`"
    yield "from the same machine, in turn with `python -m streamsvm.reader.ingest`."
    yield "*core seconds*: of all processes but curl."
    yield ""
    yield "| | seconds | MB/s | core seconds | of curl |"
    yield "| --- | --: | --: | --: | --: |"
    for name, runs in zip(("command", "upload"), zip(*found, strict=True), strict=True):
        seconds, core_seconds, client_seconds = map(median, zip(*runs, strict=True))
        yield f"| {name} | {seconds:.1f} | {megabytes / seconds:.0f} | {core_seconds:.1f} | {client_seconds:.1f} |"


@contextmanager
def _serving(directory: Path) -> Iterator[Service]:
    service = Service(directory / "service", max_upload_bytes=1 << 40)
    try:
        yield service.start()
    finally:
        service.kill()


def _command(text: Path, data: Path) -> Taken:
    children, began = _of_children(), time.perf_counter()
    with text.open("rb") as file:
        command = [sys.executable, "-m", "streamsvm.reader.ingest", str(data)]
        subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)
    taken = Taken(time.perf_counter() - began, _of_children() - children)
    shutil.rmtree(data)
    return taken


def _upload(text: Path, service: Service) -> Taken:
    """Of the api process with its children, which it has waited for."""
    api = service.processes.one("-m streamsvm.api")
    before, client, began = _core_seconds(api), _of_children(), time.perf_counter()
    url = f"{service.url}/v1/datasets/upload"
    subprocess.run(["curl", "-sfT", str(text), url], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    taken = Taken(seconds, _core_seconds(api) - before, _of_children() - client)
    subprocess.run(["curl", "-sfX", "DELETE", url], check=True)
    return taken


def _of_children() -> float:
    """User and system time of the processes that this one has waited for."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _core_seconds(pid: int) -> float:
    """User and system time of a process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
