"""Figure 1 of block minimization (Yu, Hsieh, Chang, Lin, KDD 2010): training time against size in little memory.

Its claims: LIBLINEAR's time leaps once the data exceed memory, block minimization's grows with the data; and it trains
on data twenty times as large as memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tests.bench.commands import train_command, train_words
from tests.bench.contenders import C
from tests.bench.generate import generate, parse_size
from tests.bench.papers.figures import STYLES, save
from tests.bench.papers.runs import SEEDS, kept, limit, seeds
from tests.bench.papers.verdict import Case, verdict
from tests.bench.reading import PROGRAM, program_words
from tests.bench.report import header, prose, row, spread
from tests.bench.small_memory import within
from tests.bench.throttle import forget_pages
from tests.contracts.problems import libsvm_text, random_problem, smallest_cache
from tests.end_to_end.cgroup import reason_unusable

LIMIT = limit("bm-memory")
SIZES = ("200MB", "500MB", "1GB", "2GB", "5GB", "10GB")  # of text, those up to LARGEST
LARGEST = parse_size(os.environ.get("SIZE", "5GB"))
REPEATED = parse_size("1GB")  # the largest that all seeds are run on
MEMORY, CACHE = 512 << 20, 48 << 20
RELATIVE_GAP = 1e-2
WAYS: dict[str, tuple[str, ...]] = {
    "L-10": ("--solver", "bm", "--solver-option", "inner_rounds=10"),
    "L-D": ("--solver", "bm", "--solver-option", "inner_rounds=none"),
}
LIBLINEAR = "LIBLINEAR"
GROWTH = 1.5  # seconds a byte at the largest size, over those at the smallest beyond memory: proportional, or nearly
TIMES = 20  # as large as memory, in the paper
PROPORTIONAL = f"seconds of block minimization grow with the data (here: at most {GROWTH:g} times as many a byte)."
LEAPS = "LIBLINEAR cannot train on data that exceed memory, and block minimization can."

Attempt = dict[str, Any]  # of `small_memory.Attempt`
Attempts = dict[str, list[Attempt]]  # by contender, one a seed


def run() -> Iterator[str]:
    """Lines of Markdown."""
    reason = reason_unusable()
    if reason:
        yield f"Not measured: {reason}."
        return
    _warm_up()
    yield from prose(
        f"Generated text, hinge loss, C = {C:g}, no bias; a memory control group of {MEMORY >> 20} MiB, to which the "
        "kernel charges all memory of the processes, tmpfs and page cache. L-10, L-D: `streamsvm train`, cache "
        f"{CACHE >> 20} MiB, from text on disk to a model certified to {RELATIVE_GAP:.0e}, {LIMIT:g} s of training at "
        f"most. LIBLINEAR: `{PROGRAM}` at its default tolerance, which promises no gap, reading included; no longer "
        "run on more than it was killed on. Its seconds leap in the paper, where it may swap; here there is no swap, "
        f"and it is killed. The paper goes to {TIMES} times the memory; here reading text in takes more than 384 MiB, "
        f"whatever its size, so the group cannot be much smaller. Up to {REPEATED / 1e9:g} GB {seeds()}, medians ± "
        "half the range; larger texts once, for their time."
    )
    found: dict[str, Attempts] = {}
    for size in SIZES:
        if parse_size(size) <= LARGEST:
            found[size] = _measure(size, _is_killed(found))
    yield from header(
        "text", *(f"{name}: {what}" for name in (*WAYS, LIBLINEAR) for what in ("seconds", "MiB", "outcome"))
    )
    for size, attempts in found.items():
        cells = []
        for name in (*WAYS, LIBLINEAR):
            peak = max(one["peak_bytes"] for one in attempts[name])
            cells += [spread(_seconds(attempts[name])), peak >> 20 or "-", _worst(attempts[name])]
        yield row(size, *cells)
    yield ""
    yield _figure(found)
    yield ""
    yield from verdict(PROPORTIONAL, [growth(found, name) for name in WAYS])
    yield from verdict(LEAPS, list(_outcomes(found)), _advice(found))


def _warm_up() -> None:
    """Compile, or load, all that the commands need."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text = Path(directory) / "small.svm"
        text.write_bytes(libsvm_text(*random_problem()))
        for way in WAYS.values():
            train_command(text, smallest_cache(), "--max-passes", "2", *way)


def _is_killed(found: Mapping[str, Attempts]) -> bool:
    """Whether LIBLINEAR was killed on a smaller text."""
    return any(_worst(attempts[LIBLINEAR]).startswith("killed") for attempts in found.values())


def _measure(size: str, without_liblinear: bool) -> Attempts:
    n_bytes = parse_size(size)
    numbers = range(SEEDS if n_bytes <= REPEATED else 1)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        text, model = Path(directory) / "text.svm", Path(directory) / "a.model"
        kept("bm-memory", (size, "text"), lambda: generate(text, size_bytes=n_bytes))
        attempts: Attempts = {}
        for name in (*WAYS, LIBLINEAR):
            if name == LIBLINEAR and without_liblinear:
                attempts[name] = [_no_attempt("not run")]
                continue
            attempts[name] = [
                kept(
                    "bm-memory",
                    (size, name, seed),
                    lambda name=name, seed=seed: _attempt(name, seed, text, model, n_bytes),
                )
                for seed in numbers
            ]
        return attempts


def _attempt(name: str, seed: int, text: Path, model: Path, n_bytes: int) -> Attempt:
    if not text.exists():  # it was made by a command that was cut short
        generate(text, size_bytes=n_bytes)
    forget_pages([text])
    if name == LIBLINEAR:
        words = program_words(text, model, C) if shutil.which(PROGRAM) else []
        return asdict(within(MEMORY, words)) if words else _no_attempt(f"{PROGRAM} is not installed")
    ends = (
        "-C", f"{C:g}", "--tolerance", "none", "--relative-gap", f"{RELATIVE_GAP:g}", "--max-seconds", f"{LIMIT:g}",
        "--seed", f"{seed}",
    )  # fmt: skip
    return asdict(within(MEMORY, train_words(text, model, CACHE, *ends, *WAYS[name])))


def _no_attempt(why: str) -> Attempt:
    return {"spent": {"seconds": None}, "peak_bytes": 0, "outcome": why}


def _seconds(attempts: Sequence[Attempt]) -> list[float | None]:
    return [one["spent"]["seconds"] for one in attempts]


def _is_trained(attempts: Sequence[Attempt]) -> bool:
    return all(one["outcome"] == "trained" or one["outcome"].startswith("certified") for one in attempts)


def _worst(attempts: Sequence[Attempt]) -> str:
    """The outcome of the seed that did not train, if there is one, or of the largest gap."""
    return max(
        (one["outcome"] for one in attempts), key=lambda each: (not each.startswith(("trained", "cert")), _gap(each))
    )


def _gap(outcome: str) -> float:
    """The gap that an outcome ends with, 0 if with none."""
    last = outcome.rsplit(maxsplit=1)[-1]
    return float(last) if last[0].isdigit() else 0.0


def growth(found: Mapping[str, Attempts], name: str) -> Case:
    """Seconds a byte at the largest size over those at the smallest that exceeds memory, by median.

    At smaller sizes starting up counts for much, which would speak for the claim.
    """
    trained = [size for size in found if parse_size(size) > MEMORY and _is_trained(found[size][name])]
    if len(trained) < 2:
        return Case(name, None, f"trained on {len(trained)} sizes beyond memory")
    first, last = (_middle(found[size][name]) / parse_size(size) for size in (trained[0], trained[-1]))
    ratio = last / first
    return Case(name, ratio <= GROWTH, f"{ratio:.2g} times as many a byte at {trained[-1]} as at {trained[0]}")


def _middle(attempts: Sequence[Attempt]) -> float:
    return median(one["spent"]["seconds"] for one in attempts)


def _outcomes(found: Mapping[str, Attempts]) -> Iterator[Case]:
    """A case for the sizes on which LIBLINEAR has room, undecided, and one for each of those on which it has not."""
    room = [size for size in found if _is_trained(found[size][LIBLINEAR])]
    if room:
        yield Case(f"up to {room[-1]}", None, "LIBLINEAR trained: it has room")
    for size, attempts in found.items():
        if size not in room:
            theirs = _worst(attempts[LIBLINEAR])
            is_told = theirs.startswith("killed") or _is_killed({each: found[each] for each in found if each != size})
            ours = all(_is_trained(attempts[name]) for name in WAYS)
            figures = f"{', '.join(f'{name} {_worst(attempts[name])}' for name in WAYS)}; LIBLINEAR {theirs}"
            yield Case(size, ours if is_told else None, figures)


def _advice(found: Mapping[str, Attempts]) -> str:
    trained = [size for size in found if _is_trained(found[size]["L-D"])]
    if not trained:
        return "no text was trained on."
    largest = trained[-1]
    attempts = found[largest]["L-D"]
    peak = max(one["peak_bytes"] for one in attempts) >> 20
    return (
        f"the largest text trained on was {parse_size(largest) / MEMORY:.2g} times the memory (the paper: {TIMES}): "
        f"{largest} in {_middle(attempts):.0f} s with L-D, in {peak} MiB."
    )


def _figure(found: Mapping[str, Attempts]) -> str:
    figure = Figure(figsize=(4.5, 3.2), layout="constrained", dpi=130)
    axes = figure.subplots()
    for style, name in zip(STYLES, (*WAYS, LIBLINEAR), strict=False):
        trained = [size for size in found if _is_trained(found[size][name])]
        sizes, several = [parse_size(size) / 1e9 for size in trained], [_seconds(found[size][name]) for size in trained]
        axes.plot(sizes, [_middle(found[size][name]) for size in trained], label=name, markersize=4, **style)  # type: ignore[arg-type]
        axes.fill_between(
            sizes, [min(each) for each in several], [max(each) for each in several], color=style["color"], alpha=0.15
        )  # type: ignore[arg-type,type-var]
    axes.axvline(MEMORY / 1e9, color="0.6", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="text (GB); grey: memory", ylabel="seconds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.grid(color="0.9", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)
    return save(figure, "bm-memory")
