"""Compiles the kernels of ordinary jobs ahead, in STEPS, by two processes side by side; `streamsvm warm` compiles all.

numba keeps kernels beside the sources, or where NUMBA_CACHE_DIR says; `missing` looks there. Other kernels are compiled
when a job needs them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO

from streamsvm.service.errors import DIED, ServiceError
from streamsvm.storage.machine.child import child_environment
from streamsvm.storage.machine.compiling import COMPILING, TREE, say_compiling, stamp_of

Report = Callable[[int, int], None]  # steps done, steps in all

_BAR, _PROCESSES = 30, 2
# Name of a step (for a format, the format) -> source and name of its last kernel. The longest steps come first.
STEPS = {
    "text": ("reader/parsers/text/words_kernel.py", "hash_documents"),
    "several": ("trainer/problem/lane_kernel.py", "sums_of_lanes"),
    "training": ("trainer/newton/system_kernel.py", "spread_out"),
    "libsvm": ("reader/parsers/libsvm_kernel.py", "parse_lines"),
    "one": ("trainer/kernels/hinge.py", "move_on"),
    "storing": ("storage/files/codec_kernel.py", "integrate"),
    "csv": ("reader/parsers/tables/tables_kernel.py", "read_table"),
    "fasta": ("reader/parsers/fasta_kernel.py", "pack_lines"),
    "other": ("reader/ingest/ingest_kernel.py", "renumber"),
}
ORDINARY = ("training", "storing")


def missing(*more: str, tree: Path = TREE, or_unknown: bool = False) -> list[str]:
    """Return which of the STEPS in ORDINARY and in `more` have kernels not compiled from the present sources.

    If numba's place for kernels is not known: no steps, or all of them if `or_unknown`. Does not import numba.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return []
    mark = stamp_of(tree).encode()
    names = [name for name in dict.fromkeys((*ORDINARY, *more)) if name in STEPS]
    return [name for name in names if not _is_compiled(*STEPS[name], mark, tree, not or_unknown)]


def compile_kernels(report: Report, names: Iterable[str]) -> float:
    """Compile the kernels of these STEPS; return the seconds that it took. Raises ServiceError if a process fails."""
    count, began, numbers = 0, time.monotonic(), [number for number, name in enumerate(STEPS) if name in {*names}]
    if not numbers:
        return 0.0
    report(0, len(numbers))
    (steps, to), (done, end) = os.pipe(), os.pipe()
    os.write(to, bytes(numbers))  # whichever process is free takes the next byte
    os.close(to)
    command, environment = [sys.executable, "-m", "streamsvm.service.processes.kernel_steps"], child_environment()
    with ExitStack() as ended:
        for _ in range(min(_PROCESSES, len(numbers))):
            child = ended.enter_context(subprocess.Popen(command, stdin=steps, stdout=end, env=environment))
            ended.callback(child.kill)
        os.close(steps)
        os.close(end)
        with os.fdopen(done) as lines:
            for count, _ in enumerate(lines, 1):
                report(count, len(numbers))
    if count < len(numbers):
        raise ServiceError(DIED, "the kernels could not be compiled", "What was said above says why.")
    return time.monotonic() - began


@cache  # looking for kernels takes as long as training on a few rows
def compile_first(*names: str) -> None:
    """Compile the kernels of these STEPS that are not compiled yet, with a progress bar on standard error.

    Raises ServiceError if compiling fails.
    """
    if needed := missing(*names):
        compile_kernels(show_bar(sys.stderr), needed)


def show_bar(stream: IO[str]) -> Report:
    """Return a Report for people: it fills a bar on a terminal, and writes a line to any other stream."""

    def report(done: int, every: int) -> None:
        if stream.isatty():
            filled = _BAR * done // every
            bar = "#" * filled + "." * (_BAR - filled)
            stream.write(f"\r\033[K{COMPILING}  [{bar}] {done}/{every}" + "\r\033[K" * (done == every))
        elif not done:
            say_compiling()
        stream.flush()

    return report


def _is_compiled(name: str, kernel: str, mark: bytes, tree: Path, guess: bool) -> bool:
    """Return whether numba's index of the kernel has the mark of the present sources; `guess` if it cannot be found."""
    source = tree / name
    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = source.parent / "__pycache__"
    if not given and not os.access(beside if beside.exists() else source.parent, os.W_OK, effective_ids=True):
        return guess
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    folders = Path(given).glob(f"{source.parent.name}_*") if given else [beside]
    found = [index for folder in folders for index in folder.glob(f"{source.stem}.{kernel}-*.{version}.nbi")]
    return any(mark in index.read_bytes() for index in found)
