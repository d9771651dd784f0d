"""The claims of StreamSVM's paper about seconds, each held against the runs of a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf, nan
from statistics import median

from tests.bench.papers.runs import NOISE
from tests.bench.papers.streamsvm_jobs import BM, CONTENDERS, FEW_PASSES, RELATIVE_GAP, SBM, Run, off, optimum
from tests.bench.papers.trace import Optimum
from tests.bench.papers.verdict import Part, is_above, is_ratio_above
from tests.bench.report import spread

NEAR = 1e-2
TIMES_AS_FAST = 10.0
AHEAD = "StreamSVM is nearer to the optimum than SBM and BM at the end of every pass of theirs, by the clock."
FASTER = (
    f"StreamSVM is faster by an order of magnitude (here: within {NEAR:g} of the optimum {TIMES_AS_FAST:g} times as "
    "fast as the better of SBM and BM)."
)
SOONER = f"StreamSVM is within {NEAR:g} of the optimum before BM has finished its first pass."
HALF_A_POINT = 0.005
GENERALISES = (
    "one or two passes of StreamSVM are enough to generalise (here: test accuracy after two is at most half a point "
    "below that of the run that came nearest to the optimum; not of rows on disk, where one pass is many sweeps)."
)

Problem = tuple[str, float, int | None]  # the set, C, MB/s
Runs = dict[str, list[Run]]  # of each contender, one for each seed


def optima(found: Mapping[Problem, Runs]) -> dict[Problem, Optimum]:
    """Return the best bounds on each problem's optimum, from all runs on the set with this C, whatever the disk."""
    alike: dict[tuple[str, float], list[Run]] = {}
    for (name, C, _), runs in found.items():
        alike.setdefault((name, C), []).extend(everyone(runs))
    return {key: optimum(alike[key[:2]]) for key in found}


def everyone(runs: Runs) -> list[Run]:
    """All runs of a problem."""
    return list(chain(*runs.values()))


def where(key: Problem) -> str:
    """The problem in words."""
    name, C, speed = key
    return f"{name}, C = {C:g}, {f'{speed} MB/s' if speed else 'free disk'}"


def ahead(key: Problem, runs: Runs, name: str, known: Optimum) -> Part:
    """A seed counts with the pass of others at which ours is furthest behind, or least ahead; NOISE is allowed.

    Passes count until others are as near as ours are when they end, or as is known of the optimum.
    """
    best, least = known.value, max(RELATIVE_GAP, known.doubt)
    worst: list[float | None] = []
    for seed, own in enumerate(runs[name]):
        passes = [each for other in (SBM, BM) for each in runs[other][seed].passes if off(each, best) > least]
        leads = [off(each, best) / _nearest(own, each["elapsed_seconds"], best) for each in passes]
        worst.append(min(leads, default=None))
    lead = median(each for each in worst if each is not None) if any(worst) else 0.0
    figures = f"at worst {1 / lead:.2g} times as far" if lead else "no pass to compare"
    return _part(key, is_ratio_above(worst, 1 / NOISE), -lead, figures)


def faster(key: Problem, runs: Runs, name: str, known: Optimum) -> Part:
    """By how much, to within NEAR; a run that never was there counts with all its seconds (`_bound`)."""
    best, ratios = known.value, []
    for seed, own in enumerate(runs[name]):
        others = [runs[other][seed] for other in (SBM, BM)]
        other = min(others, key=lambda one: one.seconds_to(best, NEAR) or one.seconds)
        theirs, ours = (one.seconds_to(best, NEAR) for one in (other, own))
        ratios.append(_bound(theirs, ours, (other.seconds, own.seconds), TIMES_AS_FAST))
    return _seconds_part(key, ratios, known, TIMES_AS_FAST, "{:.2g} times as fast")


def sooner(key: Problem, runs: Runs, name: str, known: Optimum) -> Part:
    """Within NEAR before BM's first pass is over."""
    best = known.value
    ours, firsts = [one.seconds_to(best, NEAR) for one in runs[name]], [one.first for one in runs[BM]]
    ratios = [
        _bound(first, there, (other.seconds, own.seconds), 1.0)
        for first, there, other, own in zip(firsts, ours, runs[BM], runs[name], strict=True)
    ]
    return _seconds_part(key, ratios, known, 1.0, f"{spread(ours)} s, BM's first pass {spread(firsts)} s")


def generalises(key: Problem, runs: Runs, name: str, known: Optimum) -> Part:
    """Whether accuracy after FEW_PASSES is that of the run that came nearest to the optimum, at its end."""
    ended = [run for run in everyone(runs) if run.passes and run.accuracy is not None]
    early = [run.early for run in runs[name] if run.early is not None]
    if len(early) < len(runs[name]) or not ended:
        return _part(key, None, 0.0, "not known")
    best = max(ended, key=lambda run: run.dual).accuracy or 0.0
    short = [best - each for each in early]
    holds = is_above(HALF_A_POINT - each for each in short)
    return _part(key, holds, median(short), f"{100 * median(short):.2f} points short after {FEW_PASSES} passes")


def advice(found: Mapping[Problem, Runs], known: Mapping[Problem, Optimum]) -> str:
    """Tell who was first within NEAR, and in what share of the seconds of the better of SBM and BM each was."""
    firsts: Counter[str] = Counter()
    shares: dict[str, list[float]] = {name: [] for name in CONTENDERS if name not in (SBM, BM)}
    for key, runs in found.items():
        best = known[key].value
        ends = {name: median(_known(one.seconds_to(best, NEAR)) for one in runs[name]) for name in CONTENDERS}
        first = min(ends, key=lambda name: ends[name])
        firsts[first] += ends[first] < inf
        others = min(ends[SBM], ends[BM])
        for name, own in shares.items():
            if others < inf:
                own.append(ends[name] / others)
    order = ", ".join(f"{name} on {n}" for name, n in firsts.most_common() if n)
    told = ", ".join(f"{name} {median(own):.2g}" for name, own in shares.items() if own)
    return (
        f"first within {NEAR:g} of the optimum, of {len(found)} problems: {order}. Seconds to there over those of the "
        f"better of SBM and BM, median: {told or 'not known'}."
    )


def _part(key: Problem, holds: bool | None, off: float, figures: str) -> Part:
    name, C, speed = key
    return Part(f"{name}{f' at {speed} MB/s' if speed else ''}, C =", f"{C:g}", holds, off, figures)


def _seconds_part(key: Problem, ratios: Sequence[float | None], known: Optimum, bound: float, figures: str) -> Part:
    """Return the part of a claim that others take `bound` times our seconds; nothing is decided by a rough optimum."""
    told = [ratio for ratio in ratios if ratio is not None]
    middle = median(told) if told else nan
    holds = is_ratio_above(ratios, bound) if known.doubt <= NEAR else None
    return _part(key, holds, -middle if told else 0.0, figures.format(middle) if told else "not known")


def _bound(theirs: float | None, ours: float | None, given_up: tuple[float, float], bound: float) -> float | None:
    """Return theirs over ours; a run that never was there (None) was given up later than after so many seconds.

    None: the ratio is beyond what is known, on the side of the bound that decides nothing.
    """
    ratio = (given_up[0] if theirs is None else theirs) / (given_up[1] if ours is None else ours)
    is_told = (theirs is not None or ratio >= bound) and (ours is not None or ratio <= bound)
    return ratio if is_told else None


def _nearest(one: Run, seconds: float, best: float) -> float:
    """(D* - D) / D* of a run after so many seconds: 1 at its start."""
    return min((off(each, best) for each in one.points if each["elapsed_seconds"] <= seconds), default=1.0)


def _known(seconds: float | None) -> float:
    return inf if seconds is None else seconds
