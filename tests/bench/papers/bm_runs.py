"""Traces that differ in their seeds alone: their medians and ranges, and what they decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.bench.papers.data import Data
from tests.bench.papers.figures import Measure, at
from tests.bench.papers.runs import SEEDS, kept
from tests.bench.papers.trace import Optimum, Point, after, optimum_of, reference, seconds_to, trace_kept
from tests.bench.report import row, spread

Runs = list[list[Point]]  # one a seed
_REFERENCE_SECONDS = 60.0


def runs_of(experiment: str, key: tuple[object, ...], *given: object, **settings: object) -> Runs:
    """`trace_kept` of each seed; the data's rows are part of the key, for generated data come in any size."""
    return [trace_kept(experiment, (*key, seed), *given, **{**settings, "seed": seed}) for seed in range(SEEDS)]


def key_of(data: Data) -> tuple[str, int]:
    """Name the data of a run: generated data of one name come in any size."""
    return data.name, data.manifest.n_rows


def optimum(experiment: str, data: Data, C: float, all_runs: Iterable[Runs]) -> Optimum:
    """The best known of the reference and all these runs."""
    known = kept(experiment, (*key_of(data), C, "reference"), lambda: reference(data, C, _REFERENCE_SECONDS))
    return optimum_of((known[0], known[1]), [run for runs in all_runs for run in runs])


def line(name: str, runs: Runs, best: Optimum, few: int, near: float) -> str:
    """A row of a table: after a few passes, and in the end; medians ± half the range of the seeds."""
    early, late = [after(run, few) for run in runs], [run[-1] for run in runs]
    return row(
        name,
        _spread([best.difference(point) for point in early], ".1e"),
        _percents(early),
        _spread([point.updates for point in early], ".0f"),
        _spread([point.seconds for point in early], ".2f"),
        _spread([seconds_to(run, best, near) for run in runs], ".2f"),
        _spread([best.difference(point) for point in late], ".1e"),
        _percents(late),
        _spread([point.passes for point in late], ".0f"),
        _spread([point.updates for point in late], ".0f"),
        _spread([point.seconds for point in late], ".1f"),
        _spread([point.read_bytes / 1e6 for point in late], ".0f"),
    )


def columns(few: int, near: float) -> tuple[str, ...]:
    """Names of what `line` shows, but the first."""
    return (
        f"off after {few} passes", "test accuracy", "updates a row", "seconds", f"seconds to {near:.0e}",
        "off in the end", "test accuracy", "passes", "updates a row", "seconds", "MB read",
    )  # fmt: skip


def _percents(points: Sequence[Point]) -> str:
    shares = [point.accuracy for point in points if point.accuracy is not None]
    return _spread(shares, ".2%") if shares else "-"


def _spread(numbers: Sequence[float | None], form: str) -> str:
    """`spread`, without a range that is rounded to 0."""
    middle, _, half = spread(numbers, form).partition(" ± ")
    return f"{middle} ± {half}" if half.strip("0.%") else middle


def ratios(ours: Runs, theirs: Runs, best: Optimum, cost: Measure) -> list[float]:
    """Tell how much further off each of our runs is than theirs of the same seed, where the cheaper one ended."""
    found = []
    for pair in zip(ours, theirs, strict=True):
        place = [min(cost(run[-1]) for run in pair)]
        off = [float(at([(cost(point), best.difference(point)) for point in run], place)[0]) for run in pair]
        found.append(off[0] / off[1])
    return found
