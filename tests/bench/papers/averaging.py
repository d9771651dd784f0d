"""Averaging (Matsushima, Vishwanathan, Smola, KDD 2012, section 1.3): machines trained apart, and their mean.

Its claim: the mean of the machines that K computers have made of a part of the data each is better than one of them,
and near the machine of all data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.figure import Figure

from tests.bench.papers.data import Data, read_in
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import SEEDS, is_wanted, kept, seeds
from tests.bench.papers.trace import reference
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import header, prose, row
from tests.reference.dcd import dcd

NAMES = ("imdb", "a9a", "mnist8")
COSTS = {"imdb": 1.0, "a9a": 1.0, "mnist8": 0.01}
PARTS = (2, 4, 8, 16)
EXACT = 1e-3
REFERENCE_SECONDS = 20.0
NEAR = 0.01
BETTER = "the mean is better than one of the machines, in P and in accuracy."
AS_GOOD = f"it is near the machine of all data (here: within {NEAR:.0%} of P and a point of accuracy)."


@dataclass(frozen=True)
class Shards:
    """K machines: P over all rows and accuracy of one of them on average, and of their mean."""

    one: tuple[float, float]
    mean: tuple[float, float]


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Rows parted at random into K shards, each trained alone to a relative gap of {EXACT:.0e} with K times C, so "
        f"that it is the same problem; means of {seeds()}. *off*: P over all rows above the optimum of all rows, with "
        "C."
    )
    found: dict[str, dict[int, Shards]] = {}
    whole: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        for name in filter(is_wanted, NAMES):
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
                continue
            best = reference(data, COSTS[name], REFERENCE_SECONDS)[0]
            whole[name] = _machine(data, np.arange(len(data.y)), COSTS[name], best, (name, 1, 0))[1]
            found[name] = {K: _shards(data, K, best) for K in PARTS}
    yield from header("data", "C", "K", "off, one", "off, mean", "accuracy, one", "mean", "all data")
    for name, shards in found.items():
        for K, each in shards.items():
            numbers = [f"{each.one[0]:.2g}", f"{each.mean[0]:.2g}", f"{each.one[1]:.2%}", f"{each.mean[1]:.2%}"]
            yield row(name, f"{COSTS[name]:g}", K, *numbers, f"{whole[name]:.2%}")
    yield ""
    if not found:
        return
    yield _figure(found)
    yield ""
    cases = [(f"{name}, K = {K}", name, each) for name, shards in found.items() for K, each in shards.items()]
    yield from verdict(BETTER, [_better(where, each) for where, _, each in cases])
    yield from verdict(AS_GOOD, [_as_good(where, each, whole[name]) for where, name, each in cases])


def _shards(data: Data, K: int, best: float) -> Shards:
    ones, means = [], []
    for seed in range(SEEDS):
        order = np.random.default_rng((seed, K)).permutation(len(data.y))
        parts = np.array_split(order, K)
        found = kept("averaging", (data.name, K, seed), lambda parts=parts: _trained(data, parts, best))
        ones.append(found["one"])
        means.append(found["mean"])
    return Shards(_mean(ones), _mean(means))


def _trained(data: Data, parts: Sequence[np.ndarray], best: float) -> dict[str, tuple[float, float]]:
    C = COSTS[data.name]
    w = [dcd(data.X[part], data.y[part], C * len(parts), tol=EXACT).w for part in parts]
    return {
        "one": _mean([_judged(data, each, C, best) for each in w]),
        "mean": _judged(data, np.mean(w, axis=0), C, best),
    }


def _machine(data: Data, part: np.ndarray, C: float, best: float, key: tuple[object, ...]) -> tuple[float, float]:
    return kept("averaging", key, lambda: _judged(data, dcd(data.X[part], data.y[part], C, tol=EXACT).w, C, best))


def _judged(data: Data, w: np.ndarray, C: float, best: float) -> tuple[float, float]:
    """(P - P*) / P*, accuracy."""
    return data.primal(w, C) / best - 1, data.accuracy(w) or 0.0


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return mean(pair[0] for pair in pairs), mean(pair[1] for pair in pairs)


def _better(where: str, each: Shards) -> Case:
    holds = each.mean[0] < each.one[0] and each.mean[1] > each.one[1]
    figures = f"{each.mean[0]:.2g} off against {each.one[0]:.2g}, {each.mean[1]:.1%} against {each.one[1]:.1%}"
    return Case(where, holds, figures)


def _as_good(where: str, each: Shards, whole: float) -> Case:
    holds = each.mean[0] <= NEAR and each.mean[1] >= whole - 0.01
    return Case(where, holds, f"{each.mean[0]:.2g} off, {each.mean[1]:.1%} against {whole:.1%}")


def _figure(found: dict[str, dict[int, Shards]]) -> str:
    figure = Figure(figsize=(3.0 * len(found), 3.2), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for (name, shards), axes in zip(found.items(), panels, strict=True):
        for style, what in zip(STYLES, ("one", "mean"), strict=False):
            axes.plot(list(shards), [getattr(each, what)[0] for each in shards.values()], label=what, **style)  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel="K", ylabel="(P - P*) / P*", title=name)
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels, 2)
    return save(figure, "averaging")
