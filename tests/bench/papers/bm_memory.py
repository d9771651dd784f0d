"""Figure 1 of block minimization (Yu, Hsieh, Chang, Lin, KDD 2010): training time against size in little memory.

Its claims: LIBLINEAR's time leaps once the data exceed memory, block minimization's grows with the data; and it trains
on data twenty times as large as memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tests.bench.commands import train_command, train_words
from tests.bench.contenders import C
from tests.bench.generate import generate, parse_size
from tests.bench.papers.figures import STYLES, save
from tests.bench.papers.runs import kept, limit
from tests.bench.papers.verdict import Case, verdict
from tests.bench.prepared import size_limit
from tests.bench.reading import PROGRAM, program_words
from tests.bench.report import cell, header, prose, row
from tests.bench.small_memory import within
from tests.contracts.problems import libsvm_text, random_problem, smallest_cache
from tests.end_to_end.cgroup import reason_unusable

LIMIT = limit("bm-memory")
SIZES = ("200MB", "500MB", "1GB", "2GB", "5GB", "10GB")  # of text, those up to SIZE
MEMORY, CACHE = 512 << 20, 48 << 20
RELATIVE_GAP = 1e-2
WAYS: dict[str, tuple[str, ...]] = {
    "L-10": ("--solver", "bm", "--inner-rounds", "10"),
    "L-D": ("--solver", "bm", "--inner-rounds", "none"),
}
LIBLINEAR = "LIBLINEAR"
GROWTH = 1.5  # seconds a byte at the largest size, over those at the smallest: proportional, or nearly
TIMES = 20  # as large as memory, in the paper
PROPORTIONAL = f"seconds of block minimization grow with the data (here: at most {GROWTH:g} times as many a byte)."
LEAPS = "LIBLINEAR cannot train on data that exceed memory, and block minimization can."


def run() -> Iterator[str]:
    """Lines of Markdown."""
    reason = reason_unusable()
    if reason:
        yield f"Not measured: {reason}."
        return
    _warm_up()
    yield from prose(
        f"Generated text, hinge loss, C = {C:g}, no bias; a memory control group of {MEMORY >> 20} MiB, to which the "
        "kernel charges all memory of the processes, tmpfs and page cache; no swap. L-10, L-D: `streamsvm train`, "
        f"cache {CACHE >> 20} MiB, from text to a model certified to {RELATIVE_GAP:.0e}, {LIMIT:g} s at most. "
        f"LIBLINEAR: `{PROGRAM}` at its default tolerance, reading included. Single runs."
    )
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for size in SIZES:
        if parse_size(size) <= size_limit():
            found[size] = _measure(size)
    yield from header(
        "text", *(f"{name}: {what}" for name in (*WAYS, LIBLINEAR) for what in ("seconds", "MiB", "outcome"))
    )
    for size, attempts in found.items():
        cells = []
        for name in (*WAYS, LIBLINEAR):
            one = attempts[name]
            cells += [cell(one["spent"]["seconds"]), one["peak_bytes"] >> 20, one["outcome"]]
        yield row(size, *cells)
    yield ""
    yield _figure(found)
    yield ""
    yield from verdict(PROPORTIONAL, [_growth(found, name) for name in WAYS])
    yield from verdict(LEAPS, [_outcomes(size, attempts) for size, attempts in found.items()], _advice(found))


def _warm_up() -> None:
    """Compile, or load, all that the commands need."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "small.svm"
        text.write_bytes(libsvm_text(*random_problem()))
        for way in WAYS.values():
            train_command(text, smallest_cache(), "--max-passes", "2", *way)


def _measure(size: str) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, model = Path(directory) / "text.svm", Path(directory) / "a.model"
        generate(text, size_bytes=parse_size(size))
        ends = (
            "-C",
            f"{C:g}",
            "--tolerance",
            "none",
            "--relative-gap",
            f"{RELATIVE_GAP:g}",
            "--max-seconds",
            f"{LIMIT:g}",
        )
        words = {name: train_words(text, model, CACHE, *ends, *way) for name, way in WAYS.items()}
        words[LIBLINEAR] = program_words(text, model, C) if shutil.which(PROGRAM) else []
        return {name: kept("bm-memory", (size, name), lambda each=each: _attempt(each)) for name, each in words.items()}


def _attempt(words: list) -> dict[str, Any]:
    if not words:
        return {"spent": {"seconds": None}, "peak_bytes": 0, "outcome": f"{PROGRAM} is not installed"}
    return asdict(within(MEMORY, words))


def _is_trained(attempt: dict[str, Any]) -> bool:
    return attempt["outcome"] == "trained" or attempt["outcome"].startswith("certified")


def _growth(found: dict[str, dict[str, dict[str, Any]]], name: str) -> Case:
    """Seconds a byte at the largest size over those at the smallest, of those that it trained on."""
    trained = [size for size in found if _is_trained(found[size][name])]
    if len(trained) < 2:
        return Case(name, None, f"trained on {len(trained)} sizes")
    first, last = [found[size][name]["spent"]["seconds"] / parse_size(size) for size in (trained[0], trained[-1])]
    return Case(
        name, last / first <= GROWTH, f"{last / first:.2g} times as many a byte at {trained[-1]} as at {trained[0]}"
    )


def _outcomes(size: str, attempts: dict[str, dict[str, Any]]) -> Case:
    """Undecided where LIBLINEAR has room, or cannot be run."""
    ours = all(_is_trained(attempts[name]) for name in WAYS)
    theirs = attempts[LIBLINEAR]
    is_told = theirs["outcome"].startswith("killed")
    figures = f"{', '.join(attempts[name]['outcome'] for name in WAYS)}; LIBLINEAR {theirs['outcome']}"
    return Case(size, ours if is_told else None, figures)


def _advice(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    largest = max((parse_size(size) for size in found if _is_trained(found[size]["L-D"])), default=0)
    return f"the largest text trained on was {largest / MEMORY:.2g} times the memory (the paper: {TIMES})."


def _figure(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    figure = Figure(figsize=(4.5, 3.2), layout="constrained", dpi=130)
    axes = figure.subplots()
    for style, name in zip(STYLES, (*WAYS, LIBLINEAR), strict=False):
        trained = [size for size in found if _is_trained(found[size][name])]
        seconds = [found[size][name]["spent"]["seconds"] for size in trained]
        axes.plot([parse_size(size) / 1e9 for size in trained], seconds, label=name, markersize=4, **style)  # type: ignore[arg-type]
    axes.axvline(MEMORY / 1e9, color="0.6", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="text (GB); grey: memory", ylabel="seconds")
    axes.grid(color="0.9", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)
    return save(figure, "bm-memory")
