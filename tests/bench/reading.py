"""How long LIBLINEAR takes to read its text."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.liblinear import DEFAULT_EPS
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent, Stopwatch, core_seconds_below

PROGRAM = "liblinear-train"
PREFIX_BYTES = 100_000_000
_POLL_SECONDS = 2e-3
_READ = "import sys; from tests.reference.liblinear import read_seconds; print(read_seconds(sys.argv[1]))"


@dataclass(frozen=True)
class Reading:
    """
    seconds  of reading
    whole    what a run at the default tolerance took, if it was measured as a whole
    """

    seconds: float
    whole: Spent | None


def how() -> str:
    """What `read` does here, for people."""
    if shutil.which(PROGRAM):
        return (
            f"LIBLINEAR's whole run is that of Debian's `{PROGRAM} -e {DEFAULT_EPS}`, its reading the part "
            "of it until it closes its input"
        )
    return (
        f"LIBLINEAR's reading is that of the PyPI package's Python reader: `{PROGRAM}`, whose reader is in C and "
        f"several times as fast, is not installed. Of a text of more than {PREFIX_BYTES / 1e6:.0f} MB the beginning "
        f"was timed and scaled. Its whole run is reading and training with `-e {DEFAULT_EPS}`"
    )


def read(data: Prepared, C: float) -> Reading:
    """Let LIBLINEAR read the text of a data set, and go on to the model if its own program is there."""
    if shutil.which(PROGRAM):
        return _watch_program(data.text, C)
    with tempfile.NamedTemporaryFile(prefix="prefix-", dir=data.directory) as prefix:
        with data.text.open("rb") as text:
            prefix.write(text.read(PREFIX_BYTES))
            prefix.write(text.readline())
        prefix.flush()
        share = Path(prefix.name).stat().st_size / data.text_bytes
        done = subprocess.run([sys.executable, "-c", _READ, prefix.name], stdout=subprocess.PIPE, text=True, check=True)
    return Reading(float(done.stdout) / share, None)


def _watch_program(text: Path, C: float) -> Reading:
    with tempfile.NamedTemporaryFile(prefix="model-") as model:
        watch = Stopwatch(core_seconds_below)
        with subprocess.Popen(program_words(text, Path(model.name), C)) as child:
            _wait(child, lambda: _has_open(child.pid, text))
            _wait(child, lambda: not _has_open(child.pid, text))
            read = watch.total()
            child.wait()
            whole = watch.total()
    if child.returncode:
        raise RuntimeError(f"{PROGRAM} ended with exit code {child.returncode}")
    return Reading(read.seconds, whole)


def program_words(text: Path, model: Path, C: float) -> list[str]:
    """LIBLINEAR's program on a text, at its default tolerance."""
    return [PROGRAM, "-s", "3", "-c", f"{C!r}", "-e", f"{DEFAULT_EPS!r}", "-B", "-1", "-q", str(text), str(model)]


def _wait(child: subprocess.Popen, condition: Callable[[], bool]) -> None:
    """Until the condition holds or the child ends."""
    while child.poll() is None and not condition():
        time.sleep(_POLL_SECONDS)


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(entry.readlink() == path.resolve() for entry in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False  # a file was closed while we looked, or the process ended
