"""How long LIBLINEAR takes to read its text."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.liblinear import DEFAULT_EPS, EPS
from tests.bench.prepared import Prepared

PROGRAM = "liblinear-train"
PREFIX_BYTES = 100_000_000
_READ = "import sys; from tests.reference.liblinear import read_seconds; print(read_seconds(sys.argv[1]))"


@dataclass(frozen=True)
class Reading:
    """
    seconds        of reading
    whole_seconds  of a run at the default tolerance, if it was measured as a whole
    """

    seconds: float
    whole_seconds: float | None


def how() -> str:
    """What `read` does here, for people."""
    if shutil.which(PROGRAM):
        return (
            f"LIBLINEAR's whole run is that of Debian's `{PROGRAM}`; its reading is a run of it with `-e {EPS[0]}` "
            "less the training of such a run in memory"
        )
    return (
        f"LIBLINEAR's reading is that of the PyPI package's Python reader: `{PROGRAM}`, whose reader is in C and "
        f"several times as fast, is not installed. Of a text of more than {PREFIX_BYTES / 1e6:.0f} MB the beginning "
        f"was timed and scaled. Its whole run is reading and training with `-e {DEFAULT_EPS}`"
    )


def read(data: Prepared, C: float, loosest_seconds: float) -> Reading:
    """`loosest_seconds`: of training in memory with the loosest tolerance."""
    if shutil.which(PROGRAM):
        loosest, whole = (_program_seconds(data.text, C, eps) for eps in (EPS[0], DEFAULT_EPS))
        return Reading(loosest - loosest_seconds, whole)
    with tempfile.NamedTemporaryFile(prefix="prefix-", dir=data.directory) as prefix:
        with data.text.open("rb") as text:
            prefix.write(text.read(PREFIX_BYTES))
            prefix.write(text.readline())
        prefix.flush()
        share = Path(prefix.name).stat().st_size / data.text_bytes
        done = subprocess.run([sys.executable, "-c", _READ, prefix.name], stdout=subprocess.PIPE, text=True, check=True)
    return Reading(float(done.stdout) / share, None)


def _program_seconds(text: Path, C: float, eps: float) -> float:
    with tempfile.NamedTemporaryFile(prefix="model-") as model:
        command = [PROGRAM, "-s", "3", "-c", f"{C!r}", "-e", f"{eps!r}", "-B", "-1", "-q", str(text), model.name]
        began = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - began
