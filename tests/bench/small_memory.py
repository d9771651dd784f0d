"""Text to model in less memory than LIBLINEAR needs: both run in a memory control group that kills what exceeds it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.commands.train import NOT_CONVERGED
from tests.bench.commands import Ended, compile_kernels, train_words, watched
from tests.bench.file_to_model import C
from tests.bench.generate import generate
from tests.bench.peers.liblinear import PROGRAM, program_words
from tests.bench.prepared import size_limit
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

LIMIT = 640 << 20
CACHE = 64 << 20
RELATIVE_GAP = 1e-3
_UNLIMITED = 1 << 50


@dataclass(frozen=True)
class Attempt:
    """A run in a group: what it took, the most memory it had, and how it ended."""

    spent: Spent
    peak_bytes: int
    outcome: str


def run() -> Iterator[str]:
    """Lines of Markdown."""
    reason = reason_unusable() or (None if shutil.which(PROGRAM) else f"{PROGRAM} is not installed")
    if reason:
        yield f"Not measured: {reason}."
        return
    compile_kernels()
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "text.svm"
        n_rows, n_bytes = generate(text, size_bytes=size_limit())
        free = _liblinear(text, _UNLIMITED)
        if free.peak_bytes <= LIMIT:
            yield f"Not measured: LIBLINEAR needs no more than {free.peak_bytes >> 20} MiB for {n_bytes / 1e6:.0f} MB."
            return
        yield from _table(text, f"{n_bytes / 1e6:,.0f} MB of generated text, {n_rows:,} rows", free)


def _table(text: Path, data: str, free: Attempt) -> Iterator[str]:
    yield from prose(
        f"{data}; hinge loss, C = {C:g}, no bias, single runs. *streamsvm*: `streamsvm train FILE --relative-gap "
        f"{RELATIVE_GAP:g}`, cache {CACHE >> 20} MiB; *LIBLINEAR*: `{PROGRAM}` at its default tolerance. *limit*: of "
        "the memory control group (version 1), to which the kernel charges all memory of the processes, tmpfs and page "
        "cache, and which kills what exceeds it. *peak*: private pages, libraries and tmpfs, looked at four times a "
        "second."
    )
    yield from header("", "limit, MiB", "seconds", "core seconds", "peak, MiB", "outcome")
    yield line("streamsvm", None, _streamsvm(text, _UNLIMITED))
    yield line("LIBLINEAR", None, free)
    yield line("streamsvm", LIMIT, _streamsvm(text, LIMIT))
    yield line("LIBLINEAR", LIMIT, _liblinear(text, LIMIT))


def line(name: str, limit: int | None, attempt: Attempt) -> str:
    """A row of the table."""
    spent, words = attempt.spent, "none" if limit is None else limit >> 20
    return row(name, words, cell(spent.seconds), cell(spent.core_seconds), attempt.peak_bytes >> 20, attempt.outcome)


def _streamsvm(text: Path, limit: int) -> Attempt:
    options = ("-C", f"{C:g}", "--tolerance", "none", "--relative-gap", f"{RELATIVE_GAP:g}")
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        words = train_words(text, Path(directory) / "a.model", CACHE, *options)
        return _within(limit, words)


def _liblinear(text: Path, limit: int) -> Attempt:
    with tempfile.NamedTemporaryFile(prefix="model-") as model:
        return _within(limit, program_words(text, Path(model.name), C))


def _within(limit: int, words: list) -> Attempt:
    """Run a command in a group of so many bytes."""
    group = MemoryGroup("bench", limit)
    try:
        ended, peak_bytes = watched(words, group=group.path)
        return Attempt(ended.spent, peak_bytes, outcome(ended, group.oom_kills))
    finally:
        group.remove()


def outcome(ended: Ended, kills: int) -> str:
    """How a command ended, in words."""
    if ended.code not in (0, NOT_CONVERGED):
        return "killed by the group" if kills else f"failed with exit code {ended.code}"
    if not ended.printed:
        return "trained"
    result = json.loads(ended.printed.splitlines()[-1])["result"]
    gap = f"{result['certificate']['relative_duality_gap']:.1e}"
    return f"certified to {gap}" if result["converged"] else f"ended at {gap}"
