"""LIBLINEAR: its program on a text; its C solver on data in memory."""

from pathlib import Path

import numpy as np
from liblinear import liblinear as binding
from liblinear import liblinearutil

from tests.bench.usage import Spent, Stopwatch, own_core_seconds

PROGRAM = "liblinear-train"  # as Debian has it
DEFAULT_EPS = 0.1


def program_words(text: Path, model: Path, C: float) -> list[str]:
    """LIBLINEAR's program on a text, at its default tolerance."""
    return [PROGRAM, "-s", "3", "-c", f"{C!r}", "-e", f"{DEFAULT_EPS!r}", "-B", "-1", "-q", str(text), str(model)]


def trained(problem: "binding.problem", options: str) -> tuple[np.ndarray, Spent]:
    """Weights (n_features,) of the label 1, and what training took."""
    parameter = binding.parameter(options)
    watch = Stopwatch(own_core_seconds)
    model = liblinearutil.train(problem, parameter)
    spent = watch.total()
    w = np.ctypeslib.as_array(model.w, (problem.n,)).copy()
    return (w if model.get_labels()[0] == 1 else -w), spent
