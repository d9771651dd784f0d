"""Trains LIBLINEAR on the demo's file, if it is installed, and measures its time, memory and objective."""

import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from streamsvm.service.demo.peak_memory import PeakMemory

MOST_SECONDS = 120
_OBJECTIVE = re.compile(r"^Objective value = (\S+)$", re.MULTILINE)
_PACKAGE = """
import sys
from liblinear.liblinearutil import svm_read_problem, train
y, x = svm_read_problem(sys.argv[-2], return_scipy=True)
train(y, x, " ".join(sys.argv[1:-2]))
"""


class Measured(NamedTuple):
    """seconds: of the whole process; objective: of the dual, larger is better; peak_bytes: of memory."""

    seconds: float
    objective: float
    peak_bytes: int


def command() -> list[str] | None:
    """The command that starts LIBLINEAR's `train`; None if it is not installed."""
    if program := shutil.which("liblinear-train"):
        return [program]
    return [sys.executable, "-c", _PACKAGE] if find_spec("liblinear") else None


def measure(starts: list[str], file: Path, C: float, tolerance: float, model: Path) -> Measured | str:
    """Train on the dual of hinge loss (-s 3) to M+ - M- <= tolerance; if there is no result, returns why."""
    began = time.monotonic()
    line = [*starts, "-s", "3", "-c", f"{C:g}", "-e", f"{tolerance:g}", "-B", "1", str(file), str(model)]
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        PeakMemory(process.pid) as memory,
    ):
        try:
            output, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return f"not done after {MOST_SECONDS} s"
        finally:
            process.kill()
    seconds = time.monotonic() - began
    if process.returncode:
        return f"it could not: {(output.strip() or 'it did not say why').splitlines()[-1]}"
    objectives = _OBJECTIVE.findall(output)
    if len(objectives) != 1:
        return "is compared on two classes only"
    return Measured(seconds, -float(objectives[0]), memory.own)
