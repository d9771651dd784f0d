"""LIBLINEAR: its program on a text; its C solver on data in memory, from scratch for each tolerance."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from liblinear import liblinear as binding
from liblinear import liblinearutil

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent, Stopwatch, own_core_seconds

BYTES_PER_VALUE = 24  # 16 in the end, and the arrays it is made from
SECONDS_ARE = "training, data in memory in its own layout"
PROGRAM = "liblinear-train"  # as Debian has it
DEFAULT_EPS = 0.1
EPS = (10, 3, 1, 0.3, DEFAULT_EPS, 0.03, 0.01, 0.003, 0.001)


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """-s 3 -B -1 -e EPS."""
    problem = in_its_layout(data)
    yield None
    for eps in EPS:
        w, spent = trained(problem, f"-s 3 -c {C!r} -e {eps!r} -B -1 -q")
        yield Trial(setting(eps), spent, w)


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


def in_its_layout(data: Prepared) -> "binding.problem":
    """The data as LIBLINEAR holds it; the arrays it was made from are gone."""
    X, y = data.load()
    return binding.problem(y, X, -1)


def setting(eps: float) -> str:
    """Name of a run with this tolerance."""
    return f"-e {eps:g}"
