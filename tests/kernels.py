"""Compiles kernels that tests of several files call, once: `python -m tests.kernels`. Each kind in its own process.

Two processes that meet a kernel for the first time both compile it, and four processes run tests.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from streamsvm import StreamSVC
from tests.bench.generate import generate
from tests.contracts.kernels import compute


def _machines() -> None:
    """Trains a kernel machine, and reads generated text."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    StreamSVC(kernel="rbf", tolerance=0.5).fit(X, X[:, 0] > 0).decision_function(X)
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory) / "text.svm", rows=10, features=1 << 10)


KINDS: dict[str, Callable[[], object]] = {"contracts": compute, "machines": _machines}


def main() -> None:
    """Body of the process."""
    if sys.argv[1:]:
        KINDS[sys.argv[1]]()
        return
    children = [subprocess.Popen([sys.executable, "-m", "tests.kernels", kind]) for kind in KINDS]
    sys.exit(max(child.wait() for child in children))


if __name__ == "__main__":
    main()
