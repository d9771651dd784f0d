"""OCAS, the program svmocas of Debian's libocas-tools, on text; it prints its objective after each cutting plane."""

import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent, Stopwatch

BYTES_PER_VALUE = 24
SECONDS_ARE = "its solver, after reading its text"
PROGRAM = "svmocas"
MOST_SECONDS = 60
_LINE = re.compile(r"^\s*(\d+): tim=([\d.]+), Q_P=([\d.e+]+)")


def run(data: Prepared, C: float, solver_seconds: float | None = None) -> Iterator[Trial | None]:
    """One run down to a relative gap of 1e-4 or MOST_SECONDS, reading included. The objective is the one it prints.

    solver_seconds  its solver's own limit, instead of MOST_SECONDS for all; core seconds are told then, too: those of
                    its clock times the share of a core that its process had
    """
    if shutil.which(PROGRAM) is None:
        raise ImportError(f"no program {PROGRAM}")
    with tempfile.TemporaryDirectory(prefix="ocas-") as directory:
        text = Path(directory) / "text"
        write_readable(data.text, text)
        # A line at a time, so that those before it is ended are not lost.
        ends = ["-r", "1e-4", *(["-t", f"{solver_seconds:g}"] if solver_seconds else [])]
        command = ["stdbuf", "-oL", PROGRAM, "-c", f"{C!r}", "-b", "0", *ends, text, Path(directory) / "model"]
        printed, share = _printed(command, None if solver_seconds else MOST_SECONDS)
        trials = list(read_trials(printed.splitlines(), share if solver_seconds else None))
    if not trials:
        raise ImportError(f"no step within {MOST_SECONDS} s, reading included")
    yield None
    yield from trials


def write_readable(source: Path, target: Path) -> None:
    """Copy LIBSVM text; a row without features, which svmocas takes for damage, gets the feature 1 with the value 0."""
    with source.open("rb") as lines, target.open("wb") as out:
        out.writelines(line if b":" in line else line.rstrip() + b" 1:0\n" for line in lines)


def _printed(command: Sequence[str | Path], most_seconds: float | None) -> tuple[str, float]:
    """Run the command for so many seconds at most; returns what it prints, and the share of a core that it had."""
    watch = Stopwatch(_core_seconds_of_children)
    try:
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=most_seconds).stdout
    except subprocess.TimeoutExpired as ended:
        printed = bytes(ended.stdout or b"").decode()
    spent = watch.total()
    return printed, min(1.0, (spent.core_seconds or 0.0) / spent.seconds)


def _core_seconds_of_children() -> float:
    """Core seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_trials(lines: Iterable[str], share: float | None = None) -> Iterator[Trial]:
    """Read what it printed, an objective for each of its iterations.

    share  core seconds of a second; None: nobody knows
    """
    for line in lines:
        if found := _LINE.match(line):
            seconds = float(found[2])
            spent = Spent(seconds, None if share is None else share * seconds)
            yield Trial(f"cut {found[1]}", spent, float(found[3]))
