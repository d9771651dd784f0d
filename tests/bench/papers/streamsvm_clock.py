"""StreamSVM by the clock (Matsushima, Vishwanathan, Smola, KDD 2012, Figures 2 to 4 and the appendix).

Its claims: it is orders of magnitude ahead of block minimization by the clock, near the optimum before that has
finished its first pass; one or two passes are enough; a larger cache makes it faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from streamsvm.service.jobs.progress.progress import read_history
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from tests.bench import commands, jobs
from tests.bench.generate import generate
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import LIMIT, kept
from tests.bench.papers.verdict import Case, verdict
from tests.bench.prepared import size_limit
from tests.bench.report import cell, header, prose, row
from tests.bench.throttle import Throttle, forget_pages, reason_unusable

Passes = list[dict[str, Any]]

CACHE = 0.05  # of the data
RELATIVE_GAP = 1e-4
LEVELS = (1e-1, 1e-2, 1e-3)
COSTS = (1e-4, 1e-2, 1.0, 100.0)
SPEEDS = (None, 300, 100)  # MB/s; None: as the disk is
SHARES = (1 / 64, 1 / 16, 1 / 4, 1.0)
PRINTED, OURS, ON_DISK = "StreamSVM as printed", "streamsvm, two loops", "streamsvm, rows on disk"
SBM, BM = "SBM, distance", "BM, L-D"
CONTENDERS: dict[str, dict[str, object]] = {
    PRINTED: {"solver": "streamsvm_paper"},
    OURS: {"solver": "streamsvm", "spill": False},
    ON_DISK: {"solver": "streamsvm", "spill": True},
    SBM: {"solver": "sbm", "select": "distance"},
    BM: {"solver": "bm", "inner_rounds": None},
}
NEAR = 1e-2
AHEAD = "StreamSVM is nearer to the optimum than SBM and BM at the end of every pass of theirs, by the clock."
SOONER = f"StreamSVM is within {NEAR:g} of the optimum before BM has finished its first pass."
FEW_PASSES = f"one or two passes of StreamSVM are enough (here: to be within {NEAR:g} of the optimum)."
LARGER = "a larger cache makes it faster."


def clock() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        dataset, ingest_seconds = _generated(Path(directory))
        manifest = read_manifest(dataset)
        yield from prose(
            f"Generated text, {manifest.stored_bytes / 1e6:,.0f} MB of blocks, read in in {ingest_seconds:.0f} s; "
            f"hinge loss, no bias, cache {CACHE:.0%} of the decoded rows, reader and trainer as two processes at the "
            f"adaptive pace, until a relative gap of {RELATIVE_GAP:.0e} or {LIMIT:g} s. Of what the solvers tell after "
            "each pass: seconds until (D* - D) / D* is below a level, D* the best dual objective of all runs, below "
            "the optimum by at most *doubt*; the end of the first pass; shares of the time that reader and trainer "
            "waited. Single runs, one after the other."
        )
        reason = reason_unusable(dataset)
        speeds = (None,) if reason else SPEEDS
        if reason:
            yield from prose(f"Only at the disk's own speed: {reason}.")
        found = {
            (C, speed): {name: _run(dataset, manifest, C, speed, name) for name in CONTENDERS}
            for C in COSTS
            for speed in (speeds if C == 1.0 else speeds[:1])
        }
    yield from _table(found)
    yield _figure(found)
    yield ""
    for name in (PRINTED, OURS):
        yield from verdict(f"{AHEAD} ({name})", [_ahead(key, runs, name) for key, runs in found.items()])
        yield from verdict(f"{SOONER} ({name})", [_sooner(key, runs, name) for key, runs in found.items()])
        yield from verdict(f"{FEW_PASSES} ({name})", [_few_passes(key, runs, name) for key, runs in found.items()])


def cache() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        dataset, _ = _generated(Path(directory))
        manifest = read_manifest(dataset)
        yield from prose(
            f"The same at C = 1 with caches of {SHARES[0]:.3g} to {SHARES[-1]:g} of the decoded rows, {LIMIT:g} s at "
            "most."
        )
        yield from header(
            "contender", "cache", *(f"s to {level:g}" for level in LEVELS), "passes", "off in the end", words=2
        )
        cases = []
        for name in (PRINTED, OURS):
            runs = {share: _run(dataset, manifest, 1.0, None, name, share) for share in SHARES}
            best = optimum(list(runs.values()))
            for share, passes in runs.items():
                seconds = [cell(seconds_to(passes, best, level)) for level in LEVELS]
                yield row(name, f"{share:.3g}", *seconds, len(passes), f"{off(passes[-1], best):.1e}")
            ends = [seconds_to(passes, best, NEAR) for passes in runs.values()]
            known = [float("inf") if each is None else each for each in ends]
            holds = None if all(each is None for each in ends) else known == sorted(known, reverse=True)
            figures = f"seconds to {NEAR:g} from the smallest: {', '.join(cell(each) for each in ends)}"
            cases.append(Case(name, holds, figures))
        yield ""
        yield from verdict(LARGER, cases)


def _generated(directory: Path) -> tuple[Path, float]:
    text = directory / "text.svm"
    generate(text, size_bytes=size_limit())
    seconds = commands.ingest_command(text, directory / "dataset").seconds
    text.unlink()
    return directory / "dataset", seconds


def _run(dataset: Path, manifest: Manifest, C: float, speed: int | None, name: str, share: float = CACHE) -> Passes:
    """Figures of each pass of a job."""
    fields = {
        "C": C, "cache_bytes": int(share * manifest.decoded_bytes) + (64 << 20) * (share == 1.0), "tolerance": None,
        "relative_gap": RELATIVE_GAP, "max_seconds": LIMIT, "max_passes": 10**6, **CONTENDERS[name],
    }  # fmt: skip
    return kept("streamsvm-clock", (C, speed, name, share), lambda: _job(dataset, speed, fields))


def _job(dataset: Path, speed: int | None, fields: dict[str, object]) -> Passes:
    if speed is None:
        passes = jobs.train(dataset, **fields).passes
    else:
        blocks = sorted((dataset / "blocks").iterdir())
        with jobs.scratch() as directory, Throttle(dataset, speed * 10**6) as throttle:
            forget_pages(blocks)
            words = [throttle.path, dataset, directory / "run", directory, json.dumps({"dataset": "bench", **fields})]
            command = [sys.executable, "-m", "tests.end_to_end.cgroup", *map(str, words)]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            passes = read_history(directory / "history.ndjson")
    names = ("elapsed_seconds", "primal_bound", "dual_objective", "reader_wait_seconds", "trainer_wait_seconds")
    return [{name: each[name] for name in names} for each in passes]


def optimum(runs: Sequence[Passes]) -> float:
    """The best dual objective of all: no P is below it."""
    return max(each["dual_objective"] for passes in runs for each in passes)


def doubt(runs: Sequence[Passes]) -> float:
    """Share by which the optimum may be above the best dual objective of all, as far as a certificate has told."""
    bounds = [each["primal_bound"] for passes in runs for each in passes if each["primal_bound"] is not None]
    return min(bounds, default=float("inf")) / optimum(runs) - 1


def off(one: dict[str, Any], best: float) -> float:
    """(D* - D) / D* after a pass."""
    return max(1 - one["dual_objective"] / best, 1e-9)


def seconds_to(passes: Passes, best: float, level: float) -> float | None:
    """Seconds at the end of the first pass within the level."""
    return next((each["elapsed_seconds"] for each in passes if off(each, best) <= level), None)


def _table(found: dict[tuple[float, int | None], dict[str, Passes]]) -> Iterator[str]:
    yield from header(
        "C", "MB/s", "contender", "first pass, s", *(f"s to {level:g}" for level in LEVELS), "passes", "seconds",
        "off in the end", "doubt", "reader waits", "trainer waits", words=3,
    )  # fmt: skip
    for (C, speed), runs in found.items():
        best = optimum(list(runs.values()))
        for name, passes in runs.items():
            last = passes[-1]
            waits = [f"{last[f'{side}_wait_seconds'] / last['elapsed_seconds']:.0%}" for side in ("reader", "trainer")]
            yield row(
                f"{C:g}", speed or "free", name, cell(passes[0]["elapsed_seconds"]),
                *(cell(seconds_to(passes, best, level)) for level in LEVELS), len(passes),
                cell(last["elapsed_seconds"]), f"{off(last, best):.1e}", f"{doubt(list(runs.values())):.0e}", *waits,
            )  # fmt: skip
    yield ""


def _where(key: tuple[float, int | None]) -> str:
    return f"C = {key[0]:g}, {f'{key[1]} MB/s' if key[1] else 'free disk'}"


def _ahead(key: tuple[float, int | None], runs: dict[str, Passes], name: str) -> Case:
    best = optimum(list(runs.values()))
    behind = total = 0
    for other in (SBM, BM):
        for each in runs[other]:
            so_far = [off(ours, best) for ours in runs[name] if ours["elapsed_seconds"] <= each["elapsed_seconds"]]
            total += 1
            behind += min(so_far, default=float("inf")) > off(each, best)
    return Case(_where(key), behind == 0, f"behind at {behind} of {total} passes")


def _sooner(key: tuple[float, int | None], runs: dict[str, Passes], name: str) -> Case:
    ours = seconds_to(runs[name], optimum(list(runs.values())), NEAR)
    first = runs[BM][0]["elapsed_seconds"]
    return Case(_where(key), ours is not None and ours <= first, f"{cell(ours)} s, BM's first pass {cell(first)} s")


def _few_passes(key: tuple[float, int | None], runs: dict[str, Passes], name: str) -> Case:
    best = optimum(list(runs.values()))
    second = off(runs[name][:2][-1], best)
    return Case(_where(key), second <= NEAR, f"{second:.1e} off after the second pass")


def _figure(found: dict[tuple[float, int | None], dict[str, Passes]]) -> str:
    figure = Figure(figsize=(2.6 * len(found), 3.2), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for (key, runs), axes in zip(found.items(), panels, strict=True):
        best = optimum(list(runs.values()))
        for style, (name, passes) in zip(STYLES, runs.items(), strict=False):
            seconds = [each["elapsed_seconds"] for each in passes]
            axes.plot(seconds, [off(each, best) for each in passes], label=name, markersize=3, markevery=0.1, **style)  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel="seconds by the clock", ylabel="(D* - D) / D*")
        axes.set_title(_where(key), fontsize=9)
        axes.tick_params(labelsize=7, which="both")
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels, len(CONTENDERS))
    return save(figure, "streamsvm-clock")
