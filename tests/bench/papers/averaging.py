"""Averaging (Matsushima, Vishwanathan, Smola, KDD 2012, section 1.3): machines trained apart, and their mean.

Its claim: the mean of the machines that K computers have made of a part of the data each is better than one of them,
and near the machine of all data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np
from matplotlib.figure import Figure

from tests.bench.papers.data import Data, read_in
from tests.bench.papers.figures import STYLES, draw_seeds, one_legend, save
from tests.bench.papers.runs import NOISE, SEEDS, is_more, is_wanted, kept, seeds
from tests.bench.papers.trace import reference
from tests.bench.papers.verdict import Part, agreed, grouped, verdict
from tests.bench.report import header, prose, row, spread
from tests.reference.dcd import dcd

NAMES = ("imdb", "a9a", "mnist8")
COSTS = {"imdb": 1.0, "a9a": 1.0, "mnist8": 0.01}
PARTS = (2, 4, 8, 16)
EXACT = 1e-3
REFERENCE_SECONDS = 20.0
NEAR, POINT = 0.01, 0.01
SAME = 0.001  # of the test rows: two machines as good as each other
BETTER = "the mean is better than one of the machines, in P and in accuracy."
AS_GOOD = f"it is near the machine of all data (here: within {NEAR:.0%} of P and a point of accuracy)."


Machine = tuple[float, float]  # (P - P*) / P* over all rows; share of test rows on the right side


@dataclass(frozen=True)
class Shards:
    """K machines, for each seed: one of them on average, and their mean."""

    one: list[Machine]
    mean: list[Machine]


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, no bias. Rows parted at random into K shards, each trained alone to a relative gap of "
        f"{EXACT:.0e} with K times C, so that the loss weighs as much against the norm as it does for all rows; "
        f"{seeds()}: medians ± half their range. *off*: P over all rows above the optimum of all rows, with C; *one*: "
        "a machine of a shard, mean of the K. A verdict counts only what is so with every seed, by more than "
        f"{NOISE - 1:.0%} of *off* and {SAME:.1%} of the test rows."
    )
    found: dict[str, dict[int, Shards]] = {}
    whole: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        for name in filter(is_wanted, NAMES):
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
                continue
            C = COSTS[name]
            best = kept("averaging", (name, "reference"), partial(reference, data, C, REFERENCE_SECONDS))[0]
            whole[name] = kept("averaging", (name, 1), partial(_whole, data, best))[1]
            found[name] = {K: _shards(data, K, best) for K in PARTS}
    yield from header("data", "C", "K", "off, one", "off, mean", "accuracy, one", "mean", "all data")
    for name, shards in found.items():
        for K, each in shards.items():
            numbers = [
                spread([machine[place] for machine in machines], form)
                for place, form in enumerate((".2g", ".2%"))
                for machines in (each.one, each.mean)
            ]
            yield row(name, f"{COSTS[name]:g}", K, *numbers, f"{whole[name]:.2%}")
    yield ""
    if not found:
        return
    yield _figure(found, whole)
    yield ""
    cases = [(name, K, each) for name, shards in found.items() for K, each in shards.items()]
    yield from verdict(BETTER, grouped(_better(*case) for case in cases))
    as_good = [_as_good(*case, whole[case[0]]) for case in cases]
    yield from verdict(AS_GOOD, grouped(as_good), _advice(cases, whole))


def _shards(data: Data, K: int, best: float) -> Shards:
    ones, means = [], []
    for seed in range(SEEDS):
        order = np.random.default_rng((seed, K)).permutation(len(data.y))
        parts = np.array_split(order, K)
        found = kept("averaging", (data.name, K, seed), partial(_trained, data, parts, best))
        ones.append(found["one"])
        means.append(found["mean"])
    return Shards(ones, means)


def _trained(data: Data, parts: Sequence[np.ndarray], best: float) -> dict[str, Machine]:
    C = COSTS[data.name]
    w = [dcd(data.X[part], data.y[part], C * len(parts), tol=EXACT).w for part in parts]
    off, accuracy = zip(*(_judged(data, each, C, best) for each in w), strict=True)
    return {"one": (mean(off), mean(accuracy)), "mean": _judged(data, np.mean(w, axis=0), C, best)}


def _whole(data: Data, best: float) -> Machine:
    C = COSTS[data.name]
    return _judged(data, dcd(data.X, data.y, C, tol=EXACT).w, C, best)


def _judged(data: Data, w: np.ndarray, C: float, best: float) -> Machine:
    return data.primal(w, C) / best - 1, data.accuracy(w) or 0.0


def _more_right(one: float, other: float) -> bool | None:
    """Whether one has more test rows on the right side; None: about as many."""
    return None if abs(one - other) <= SAME else one > other


def _better(name: str, K: int, each: Shards) -> Part:
    """In both; False: worse in either."""
    outcomes: list[bool | None] = []
    for one, of_all in zip(each.one, each.mean, strict=True):
        both = is_more(one[0] / of_all[0]), _more_right(of_all[1], one[1])
        outcomes.append(False if False in both else None if None in both else True)
    (off, right), (off_one, right_one) = _middle(each.mean), _middle(each.one)
    figures = f"{off:.2g} off against {off_one:.2g}, {right:.2%} against {right_one:.2%}"
    return Part(f"{name}, K =", str(K), agreed(outcomes), off / off_one, figures)


def _as_good(name: str, K: int, each: Shards, whole: float) -> Part:
    outcomes = [off <= NEAR and right >= whole - POINT for off, right in each.mean]
    off, right = _middle(each.mean)
    return Part(f"{name}, K =", str(K), agreed(outcomes), off, f"{off:.2g} off, {right:.2%} against {whole:.2%}")


def _middle(machines: Sequence[Machine]) -> Machine:
    return median(machine[0] for machine in machines), median(machine[1] for machine in machines)


def _advice(cases: Sequence[tuple[str, int, Shards]], whole: dict[str, float]) -> str:
    """What the accuracy is at the largest K of each set."""
    parts = []
    for name, accuracy in whole.items():
        each = next(each for of, K, each in cases if (of, K) == (name, PARTS[-1]))
        gained = [100 * (_middle(machines)[1] - accuracy) for machines in (each.mean, each.one)]
        parts.append(f"{name} {gained[0]:+.1f} points (one shard alone {gained[1]:+.1f})")
    return f"accuracy of `combine: average` over {PARTS[-1]} shards against that of all data: {'; '.join(parts)}."


def _figure(found: dict[str, dict[int, Shards]], whole: dict[str, float]) -> str:
    figure = Figure(figsize=(3.0 * len(found), 5.2), layout="constrained", dpi=130)
    panels = figure.subplots(2, len(found), squeeze=False, sharex=True)
    for (name, shards), column in zip(found.items(), panels.T, strict=True):
        for place, axes in enumerate(column):
            for style, what in zip(STYLES, ("one", "mean"), strict=False):
                values = np.array([[m[place] for m in getattr(each, what)] for each in shards.values()])
                draw_seeds(axes, list(shards), values.T, f"{what} of the machines", style)
            axes.grid(color="0.9", linewidth=0.6)
            axes.tick_params(labelsize=7, which="both")
        column[1].axhline(whole[name], color="0.5", linestyle=":", label="machine of all data")
        column[0].set(xscale="log", yscale="log", title=name)
        column[1].set(xlabel="K", xticks=list(shards), xticklabels=list(map(str, shards)))
        column[1].minorticks_off()
    panels[0][0].set_ylabel("(P - P*) / P*")
    panels[1][0].set_ylabel("accuracy on test rows")
    one_legend(figure, panels.ravel(), 3)
    return save(figure, "averaging")
