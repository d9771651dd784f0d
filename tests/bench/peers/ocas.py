"""OCAS, the program svmocas of Debian's libocas-tools, on text; it prints its objective after each cutting plane."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared

BYTES_PER_VALUE = 24
SECONDS_ARE = "its solver, after reading its text"
PROGRAM = "svmocas"
MOST_SECONDS = 60
_LINE = re.compile(r"^\s*(\d+): tim=([\d.]+), Q_P=([\d.e+]+)")


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """One run down to a relative gap of 1e-4 or MOST_SECONDS. The objective is the one it prints."""
    if shutil.which(PROGRAM) is None:
        raise ImportError(f"no program {PROGRAM}")
    with tempfile.NamedTemporaryFile(prefix="ocas-") as model:
        command = [PROGRAM, "-c", f"{C!r}", "-b", "0", "-r", "1e-4", "-t", str(MOST_SECONDS), data.text, model.name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    yield None
    yield from read_trials(done.stdout.splitlines())


def read_trials(lines: Iterable[str]) -> Iterator[Trial]:
    """What it printed, an objective for each of its iterations."""
    for line in lines:
        if found := _LINE.match(line):
            yield Trial(f"cut {found[1]}", float(found[2]), float(found[3]))
