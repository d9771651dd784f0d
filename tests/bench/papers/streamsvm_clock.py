"""StreamSVM by the clock (Matsushima, Vishwanathan, Smola, KDD 2012, Figures 2 to 4 and the appendix).

Its claims: it is orders of magnitude ahead of block minimization by the clock, near the optimum before that has
finished its first pass; one or two passes are enough; a larger cache makes it faster.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from tests.bench import throttle
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import NOISE, TIMES, is_wanted, limit, patience
from tests.bench.papers.streamsvm_jobs import (
    BM,
    CONTENDERS,
    MEMORY,
    ON_DISK,
    OURS,
    PRINTED,
    RELATIVE_GAP,
    SBM,
    Run,
    Text,
    doubt,
    off,
    optimum,
    read_text,
    run,
    seconds_of_ended,
)
from tests.bench.papers.streamsvm_runs import CS
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import cell, header, prose, row
from tests.end_to_end import cgroup

LIMIT = limit("streamsvm-clock")
# Sets, and the values of C; the first has disks of all SPEEDS, at C = 1.
SETS = {"generated": CS, "imdb": (1e-2, 1.0, 1e2), "celegans": (1e-2, 1.0, 1e2)}
CACHE = 0.05  # of the data
LEVELS = (1e-1, 1e-2, 1e-3)
SPEEDS = (None, 100, 25)  # MB/s of compressed blocks; None: as the disk is, from 100 on the processor is waited for
PANELS = 5  # of the figure, side by side
SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
NEAR = 1e-2
AHEAD = "StreamSVM is nearer to the optimum than SBM and BM at the end of every pass of theirs, by the clock."
SOONER = f"StreamSVM is within {NEAR:g} of the optimum before BM has finished its first pass."
FEW_PASSES = f"one or two passes of StreamSVM are enough (here: to be within {NEAR:g} of the optimum)."
LARGER = f"a larger cache makes it faster (here: no smaller cache is {NOISE:g} times as fast as a larger one)."

Problem = tuple[str, float, int | None]  # the set, C, MB/s
Runs = dict[str, Run]


def _cannot_run() -> str | None:
    return throttle.reason_unusable(Path(tempfile.gettempdir())) or cgroup.reason_unusable()


def clock() -> Iterator[str]:
    """Lines of Markdown."""
    if reason := _cannot_run():
        yield f"Not measured: {reason}."
        return
    found: dict[Problem, Runs] = {}
    yield from prose(
        f"Hinge loss, no bias, cache {CACHE:.0%} of the decoded rows, reader and trainer as two "
        "processes at the adaptive pace (StreamSVM: 2 updates for each row read, and more while it waits for the "
        f"disk) in {MEMORY >> 20} MiB of memory, page cache included; SBM in 10 rounds "
        f"over a block and the rows it keeps. Until a relative gap of {RELATIVE_GAP:.0e} is certified, or "
        f"{LIMIT:g} s or {TIMES:g} times the seconds of the fastest that ended so are over (>). Of what the "
        "solvers tell after each pass: seconds until (D* - D) / D* is below a level, D* the best dual objective "
        "of all runs, below the optimum by at most *doubt*; the end of the first pass; shares of the time that "
        "reader and trainer waited; *right*: of test rows, those on the right side of the model in the end. "
        "Single runs, one after the other. celegans: weighted-degree features of 60 bases around acceptor sites, made "
        "beforehand, a fifth of the rows held out."
    )
    for name in filter(is_wanted, SETS):
        with read_text(name) as data:
            if data is None:
                yield from prose(f"{name}: not available.")
                continue
            yield from prose(
                f"{name}: {data.manifest.n_rows:,} rows, {data.manifest.stored_bytes / 1e6:,.0f} MB of blocks, read in "
                f"in {data.seconds:.0f} s (the same for all, and not counted)."
            )
            found |= {key: _runs(data, *key[1:]) for key in _problems(name)}
    yield from _table(found)
    yield _figure(found)
    yield ""
    for name in (PRINTED, OURS, ON_DISK):
        yield from verdict(f"{AHEAD} ({name})", [_ahead(key, runs, name) for key, runs in found.items()])
        yield from verdict(f"{SOONER} ({name})", [_sooner(key, runs, name) for key, runs in found.items()])
        yield from verdict(f"{FEW_PASSES} ({name})", [_few_passes(key, runs, name) for key, runs in found.items()])


def _problems(name: str) -> Iterator[Problem]:
    for C in SETS[name]:
        for speed in SPEEDS if C == 1.0 and name == next(iter(SETS)) else SPEEDS[:1]:
            yield name, C, speed


def _runs(data: Text, C: float, speed: int | None) -> Runs:
    found: Runs = {}
    for name in CONTENDERS:
        most = patience(seconds_of_ended(found.values()), LIMIT)
        found[name] = run(data, name, C, CACHE, most, speed, MEMORY)
    return found


def cache() -> Iterator[str]:
    """Lines of Markdown."""
    if reason := _cannot_run():
        yield f"Not measured: {reason}."
        return
    yield from prose(
        f"Generated text at C = 1 with caches of {SHARES[-1]:.3g} to {SHARES[0]:g} of the decoded rows, as much memory "
        f"as there is, until the same gap; {LIMIT:g} s at most, or {TIMES:g} times the seconds of the fastest cache "
        "with which the contender ended (>)."
    )
    with read_text("generated") as data:
        assert data is not None
        found = {name: _by_share(data, name) for name in (OURS, PRINTED)}
    everybody = [each for runs in found.values() for each in runs.values()]
    best = optimum(everybody)
    yield from prose(f"D* is below the optimum by at most {doubt(everybody):.0e}.")
    yield from header(
        "contender", "cache", *(f"s to {level:g}" for level in LEVELS), "passes", "seconds", "off in the end", words=2
    )
    for name, runs in found.items():
        for share, one in runs.items():
            yield row(name, f"{share:.3g}", *_levels(one, best), *_end(one, best))
    yield ""
    yield from verdict(LARGER, [_grows(name, runs, best) for name, runs in found.items()])


def _by_share(data: Text, name: str) -> dict[float, Run]:
    found: dict[float, Run] = {}
    for share in SHARES:
        found[share] = run(data, name, 1.0, share, patience(seconds_of_ended(found.values()), LIMIT))
    return found


def _grows(name: str, runs: dict[float, Run], best: float) -> Case:
    ends = [one.seconds_to(best, NEAR) for one in runs.values()]
    known = [float("inf") if each is None else each for each in ends]
    holds = all(more <= NOISE * less for place, more in enumerate(known) for less in known[place:])
    figures = f"seconds to {NEAR:g} from the largest: {', '.join(cell(each) for each in ends)}"
    return Case(name, None if known[0] == float("inf") else holds, figures)


def _levels(one: Run, best: float) -> list[str]:
    return [cell(one.seconds_to(best, level)) for level in LEVELS]


def _end(one: Run, best: float) -> tuple[int, str, str]:
    """Passes, seconds, and how far off after the last of them."""
    sign = "" if one.converged else "> "
    return len(one.passes), sign + cell(one.seconds), f"{off(one.passes[-1], best):.1e}" if one.passes else "-"


def _table(found: dict[Problem, Runs]) -> Iterator[str]:
    yield from header(
        "data", "C", "MB/s", "contender", "first pass, s", *(f"s to {level:g}" for level in LEVELS), "passes",
        "seconds", "off in the end", "doubt", "reader waits", "trainer waits", "right", words=4,
    )  # fmt: skip
    for (data, C, speed), runs in found.items():
        best, unknown = optimum(runs.values()), f"{doubt(runs.values()):.0e}"
        for name, one in runs.items():
            waits = [f"{one.waits(side):.0%}" for side in ("reader", "trainer")]
            right = "-" if one.accuracy is None else f"{one.accuracy:.2%}"
            figures = cell(one.first), *_levels(one, best), *_end(one, best), unknown, *waits, right
            yield row(data, f"{C:g}", speed or "free", name, *figures)
    yield ""


def _where(key: Problem) -> str:
    name, C, speed = key
    return f"{name}, C = {C:g}, {f'{speed} MB/s' if speed else 'free disk'}"


def _ahead(key: Problem, runs: Runs, name: str) -> Case:
    """Passes of others count until they are as near as ours are when they end, or as is known of the optimum."""
    best, least = optimum(runs.values()), max(RELATIVE_GAP, doubt(runs.values()))
    behind = total = 0
    for other in (SBM, BM):
        for each in runs[other].passes:
            if off(each, best) > least:
                so_far = [off(ours, best) for ours in runs[name].passes if _is_before(ours, each)]
                total += 1
                behind += min(so_far, default=float("inf")) > off(each, best)
    return Case(_where(key), behind == 0 if total else None, f"behind at {behind} of {total} passes")


def _is_before(one: dict, other: dict) -> bool:
    return one["elapsed_seconds"] <= other["elapsed_seconds"]


def _sooner(key: Problem, runs: Runs, name: str) -> Case:
    ours, first = runs[name].seconds_to(optimum(runs.values()), NEAR), runs[BM].first
    is_known = doubt(runs.values()) <= NEAR and (ours is not None or first is not None)
    holds = ours is not None and (first is None or ours <= first)
    return Case(_where(key), holds if is_known else None, f"{cell(ours)} s, BM's first pass {cell(first)} s")


def _few_passes(key: Problem, runs: Runs, name: str) -> Case:
    passes = runs[name].passes[:2]
    if not passes or doubt(runs.values()) > NEAR:
        return Case(_where(key), None, f"{len(passes)} passes")
    second = off(passes[-1], optimum(runs.values()))
    return Case(_where(key), second <= NEAR, f"{second:.1e} off after the second pass")


def _figure(found: dict[Problem, Runs]) -> str:
    lines = -(-len(found) // PANELS)
    figure = Figure(figsize=(2.6 * PANELS, 2.7 * lines + 0.6), layout="constrained", dpi=130)
    panels = figure.subplots(lines, PANELS, squeeze=False).ravel()
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    for (key, runs), axes in zip(found.items(), panels, strict=False):
        best = optimum(runs.values())
        for style, (name, one) in zip(STYLES, runs.items(), strict=False):
            seconds = [each["elapsed_seconds"] for each in one.passes]
            axes.plot(
                seconds, [off(each, best) for each in one.passes], label=name, markersize=3, markevery=0.1, **style
            )  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel="seconds by the clock", ylabel="(D* - D) / D*")
        axes.set_title(_where(key), fontsize=9)
        axes.tick_params(labelsize=7, which="both")
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels, len(CONTENDERS))
    return save(figure, "streamsvm-clock")
