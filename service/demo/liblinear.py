"""LIBLINEAR on the demo's file, where it is installed: its own time, memory and objective beside ours."""

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


class Found(NamedTuple):
    """From its first byte read to its end; the dual objective, larger is better; bytes."""

    seconds: float
    objective: float
    peak_bytes: int


def command() -> list[str] | None:
    """What starts `train`, or None."""
    if program := shutil.which("liblinear-train"):
        return [program]
    return [sys.executable, "-c", _PACKAGE] if find_spec("liblinear") else None


def measure(starts: list[str], file: Path, C: float, tolerance: float, model: Path) -> Found | str:
    """The same problem, its hinge loss's dual (-s 3), to the same M+ - M-; or why there is nothing to tell."""
    began = time.monotonic()
    line = [*starts, "-s", "3", "-c", f"{C:g}", "-e", f"{tolerance:g}", str(file), str(model)]
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        PeakMemory(process.pid) as memory,
    ):
        try:
            said, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return f"not done after {MOST_SECONDS} s"
        finally:
            process.kill()
    seconds = time.monotonic() - began
    if process.returncode:
        return f"it could not: {(said.strip() or 'it did not say why').splitlines()[-1]}"
    found = _OBJECTIVE.findall(said)
    if len(found) != 1:
        return "is compared on two classes only"
    return Found(seconds, -float(found[0]), memory.own)
