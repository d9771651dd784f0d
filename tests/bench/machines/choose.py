"""C and gamma of a set by cross-validation with LIBSVM on some of its rows, as users of LIBSVM choose them.

    python -m tests.bench.machines.choose NAME ...

prints the accuracy of each pair, and the best one: of those as good, that of the smallest C, then the smallest gamma.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.bench.commands import launch
from tests.bench.machines.data import Problem, problem
from tests.reference.data import write_libsvm

TRAIN = "svm-train"  # of LIBSVM, as Debian has it
ROWS = 4000
FOLDS = 3
CS = (1.0, 4.0, 16.0, 64.0)
GAMMAS = {
    "a9a": (2.0**-9, 2.0**-7, 2.0**-5, 2.0**-3),
    "mnist8": (2.0**-9, 2.0**-7, 2.0**-5, 2.0**-3),
    "skin": (2.0**3, 2.0**5, 2.0**7, 2.0**9),
    "letter": (2.0**-3, 2.0**-1, 2.0**1, 2.0**3),
    "bumps": (2.0**-2, 2.0**0, 2.0**2, 2.0**4),
}


def accuracies(own: Problem) -> Iterator[tuple[float, float, float]]:
    """(C, gamma, accuracy) of each pair on the same ROWS."""
    some = np.random.default_rng(0).permutation(len(own.y))[:ROWS]
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "some.svm"
        write_libsvm(text, own.X[some], own.y[some])
        for C in CS:
            for gamma in GAMMAS[own.name]:
                words = [TRAIN, "-q", "-v", str(FOLDS), "-c", f"{C!r}", "-g", f"{gamma!r}", str(text)]
                found = re.search(rb"Accuracy = ([\d.]+)%", launch(words).printed)
                assert found
                yield C, gamma, float(found[1]) / 100


def best(found: list[tuple[float, float, float]]) -> tuple[float, float]:
    """(C, gamma)."""
    C, gamma, _ = min(found, key=lambda each: (-each[2], each[0], each[1]))
    return C, gamma


if __name__ == "__main__":
    for name in sys.argv[1:]:
        own = problem(name)
        if own is None:
            print(f"{name}: not available")
            continue
        found = []
        for one in accuracies(own):
            found.append(one)
            print(f"{name} C {one[0]:g} gamma {one[1]:g}: {one[2]:.2%}", flush=True)
        print(f"{name}: C, gamma = {best(found)}")
