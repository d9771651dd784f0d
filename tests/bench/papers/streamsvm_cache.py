"""StreamSVM and the size of its cache (Matsushima, Vishwanathan, Smola, KDD 2012, Figure 4), by the clock.

Its claim: a larger cache makes it faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise

from matplotlib.figure import Figure

from tests.bench.papers.figures import one_legend, save
from tests.bench.papers.runs import NOISE, SEEDS, TIMES, limit, patience, seeds
from tests.bench.papers.streamsvm_claims import NEAR
from tests.bench.papers.streamsvm_clock import LEVELS, cannot_run, ended, levels
from tests.bench.papers.streamsvm_figures import draw_bands
from tests.bench.papers.streamsvm_jobs import (
    OURS,
    PRINTED,
    Run,
    Text,
    curve,
    doubt,
    optimum,
    read_text,
    run,
    seconds_of_ended,
)
from tests.bench.papers.verdict import Part, agreed, grouped, verdict
from tests.bench.report import header, prose, row, spread

LIMIT = limit("streamsvm-clock")
SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
LARGER = f"a larger cache makes it faster (here: no smaller cache is {NOISE:g} times as fast as the next larger one)."

ByShare = dict[float, list[Run]]  # for each share of the rows that is cached, a run of each seed


def cache() -> Iterator[str]:
    """Lines of Markdown."""
    if reason := cannot_run():
        yield f"Not measured: {reason}."
        return
    with read_text("generated") as data:
        assert data is not None
        yield from prose(
            f"Generated text ({data.manifest.n_rows:,} rows) at C = 1 with caches of {SHARES[-1]:.3g} to {SHARES[0]:g} "
            "of the decoded rows, as much memory as there is, until the same gap; "
            f"{LIMIT:g} s at most, or {TIMES:g} times the seconds of the fastest cache with which the contender ended "
            f"(>). {seeds().capitalize()}: medians ± half their range, bands in the figure."
        )
        found: dict[str, ByShare] = {name: {share: [] for share in SHARES} for name in (OURS, PRINTED)}
        for seed in range(SEEDS):
            for name, by_share in found.items():
                _runs(data, name, seed, by_share)
    everybody = list(chain(*(runs for by_share in found.values() for runs in by_share.values())))
    best = optimum(everybody)
    yield from prose(f"D* is below the optimum by at most {doubt(everybody):.0e}.")
    yield from header(
        "contender", "cache", *(f"s to {level:g}" for level in LEVELS), "passes", "seconds", "off in the end", words=2
    )
    for name, by_share in found.items():
        for share, runs in by_share.items():
            yield row(name, f"{share:.3g}", *levels(runs, best), *ended(runs, best))
    yield ""
    yield _figure(found, best)
    yield ""
    parts = [part for name, by_share in found.items() for part in _grows(name, by_share, best)]
    yield from verdict(LARGER, grouped(parts), _advice(found, best))


def _runs(data: Text, name: str, seed: int, by_share: ByShare) -> None:
    ended_so_far: list[Run] = []
    for share in SHARES:
        one = run(data, name, 1.0, share, seed, patience(seconds_of_ended(ended_so_far), LIMIT))
        ended_so_far.append(one)
        by_share[share].append(one)


def _grows(name: str, by_share: ByShare, best: float) -> Iterator[Part]:
    """Each cache against the next smaller one, by the seconds to NEAR."""
    for (more, larger), (less, smaller) in pairwise(by_share.items()):
        pairs = [(a.seconds_to(best, NEAR), b.seconds_to(best, NEAR)) for a, b in zip(larger, smaller, strict=True)]
        outcomes = [None if a is None else b is None or a <= NOISE * b for a, b in pairs]
        ours, theirs = ([pair[place] for pair in pairs] for place in (0, 1))
        off = max((a / b for a, b in pairs if a and b), default=0.0)
        figures = f"{spread(ours)} s, with {less:.3g} {spread(theirs)}"
        yield Part(f"{name}, cache", f"{more:.3g}", agreed(outcomes), off, figures)


def _advice(found: Mapping[str, ByShare], best: float) -> str:
    parts = []
    for name, by_share in found.items():
        ends = [spread([one.seconds_to(best, NEAR) for one in runs]) for runs in by_share.values()]
        parts.append(f"{name} {', '.join(ends)}")
    shares = ", ".join(f"{share:.3g}" for share in SHARES)
    return f"seconds to {NEAR:g} with {shares} of the rows in the cache: {'; '.join(parts)}."


def _figure(found: Mapping[str, ByShare], best: float) -> str:
    figure = Figure(figsize=(4.0 * len(found), 3.4), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for (name, by_share), axes in zip(found.items(), panels, strict=True):
        draw_bands(axes, {f"cache {share:.3g}": [curve(one, best) for one in runs] for share, runs in by_share.items()})
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("seconds by the clock", fontsize=8)
    panels[0].set_ylabel("(D* - D) / D*", fontsize=8)
    one_legend(figure, panels, len(SHARES))
    return save(figure, "streamsvm-cache")
