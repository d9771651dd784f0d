"""OCAS, the program svmocas of Debian's libocas-tools, on text; it prints its objective after each cutting plane."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent

BYTES_PER_VALUE = 24
SECONDS_ARE = "its solver, after reading its text"
PROGRAM = "svmocas"
MOST_SECONDS = 60
_LINE = re.compile(r"^\s*(\d+): tim=([\d.]+), Q_P=([\d.e+]+)")


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """One run down to a relative gap of 1e-4 or MOST_SECONDS, reading included. The objective is the one it prints."""
    if shutil.which(PROGRAM) is None:
        raise ImportError(f"no program {PROGRAM}")
    with tempfile.TemporaryDirectory(prefix="ocas-") as directory:
        text = Path(directory) / "text"
        write_readable(data.text, text)
        # A line at a time, so that those before it is ended are not lost.
        command = ["stdbuf", "-oL", PROGRAM, "-c", f"{C!r}", "-b", "0", "-r", "1e-4", text, Path(directory) / "model"]
        trials = list(read_trials(_printed(command).splitlines()))
    if not trials:
        raise ImportError(f"no step within {MOST_SECONDS} s, reading included")
    yield None
    yield from trials


def write_readable(source: Path, target: Path) -> None:
    """Copy LIBSVM text; a row without features, which svmocas takes for damage, gets the feature 1 with the value 0."""
    with source.open("rb") as lines, target.open("wb") as out:
        out.writelines(line if b":" in line else line.rstrip() + b" 1:0\n" for line in lines)


def _printed(command: Sequence[str | Path]) -> str:
    """What the command prints within MOST_SECONDS."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=MOST_SECONDS).stdout
    except subprocess.TimeoutExpired as ended:
        return bytes(ended.stdout or b"").decode()


def read_trials(lines: Iterable[str]) -> Iterator[Trial]:
    """Read what it printed, an objective for each of its iterations."""
    for line in lines:
        if found := _LINE.match(line):
            yield Trial(f"cut {found[1]}", Spent(float(found[2])), float(found[3]))
