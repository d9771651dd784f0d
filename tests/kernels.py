"""Compiles kernels that tests of several files call, once: `python -m tests.kernels`. Each kind in its own process.

Two processes that meet a kernel for the first time both compile it, and four processes run tests.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from streamsvm import StreamSVC
from tests.bench.generate import generate
from tests.contracts.digests import digests

# Imported by every process of Python: writes down which of our kernels are compiled, by module, name and types.
_LISTENER = """
import os
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event):
        kernel, types = event.data["dispatcher"].py_func, event.data["args"]
        if kernel.__module__.split(".")[0] == "streamsvm":
            with open(os.environ["COMPILED"], "a") as file:
                file.write(f"{os.getpid()} {kernel.__module__}.{kernel.__name__}{types}\\n")

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
"""


def listening(directory: Path) -> dict[str, str]:
    """Additions to the environment of processes that find nothing compiled and tell `compiled_in` what they compile."""
    (directory / "site").mkdir()
    (directory / "site" / "sitecustomize.py").write_text(_LISTENER)
    path = os.pathsep.join(filter(None, (str(directory / "site"), os.environ.get("PYTHONPATH"))))
    told = {"COMPILED": str(directory / "compiled"), "NUMBA_CACHE_DIR": str(directory / "kernels")}
    return {"PYTHONPATH": path, **told}


def compiled_in(directory: Path) -> tuple[list[str], list[str]]:
    """Who compiled and what: process ids, and names of kernels with their types."""
    lines = (directory / "compiled").read_text().splitlines()
    return [line.split(" ", 1)[0] for line in lines], [line.split(" ", 1)[1] for line in lines]


def _machines() -> None:
    """Trains a kernel machine, and reads generated text."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    StreamSVC(kernel="rbf", tolerance=0.5).fit(X, X[:, 0] > 0).decision_function(X)
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory) / "text.svm", rows=10, features=1 << 10)


KINDS: dict[str, Callable[[], object]] = {"contracts": digests, "machines": _machines}


def main() -> None:
    """Body of the process."""
    if sys.argv[1:]:
        KINDS[sys.argv[1]]()
        return
    children = [subprocess.Popen([sys.executable, "-m", "tests.kernels", kind]) for kind in KINDS]
    sys.exit(max(child.wait() for child in children))


if __name__ == "__main__":
    main()
