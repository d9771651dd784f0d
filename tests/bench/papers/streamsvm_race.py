"""StreamSVM as its paper raced it (Matsushima, Vishwanathan, Smola, KDD 2012, Figures 2, 3 and 5 to 12).

Text ten times as large as memory, on a disk that is the limit: D, M+ - M- and test accuracy against time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from streamsvm.storage.blocks.dataset import Dataset
from tests.bench import throttle
from tests.bench.papers.ball import Ball
from tests.bench.papers.data import accuracy
from tests.bench.papers.figures import Curve, draw_bands, one_legend, panels_of, save
from tests.bench.papers.runs import SEEDS, kept, limit, seeds
from tests.bench.papers.streamsvm_claims import Problem, Runs, optima, where
from tests.bench.papers.streamsvm_clock import add, described, table, verdicts
from tests.bench.papers.streamsvm_jobs import CONTENDERS, MEMORY, RELATIVE_GAP, Run, Text, off, read_text
from tests.bench.papers.trace import Optimum, weights
from tests.bench.papers.verdict import PAIRED
from tests.bench.report import prose
from tests.end_to_end import cgroup

NAME = "streamsvm-race"
SIZE = "5GB"  # ten times MEMORY
C, CACHE, SPEED = 1.0, 0.02, 25  # of the decoded rows: what processes leave of MEMORY; MB/s of compressed blocks
_LEAST = 1e-9  # of what a logarithmic axis shows


def run() -> Iterator[str]:
    """Lines of Markdown."""
    if reason := throttle.reason_unusable(Path(tempfile.gettempdir())) or cgroup.reason_unusable():
        yield f"Not measured: {reason}."
        return
    with read_text("generated", SIZE) as data:
        assert data is not None
        yield from prose(
            f"Hinge loss, C = {C:g}, no bias, {MEMORY >> 20} MiB of memory, page cache included, {CACHE:.0%} of the "
            f"decoded rows cached, blocks from a disk of {SPEED} MB/s; else as in `streamsvm clock`. Until a relative "
            f"gap of {RELATIVE_GAP:.0e} is certified, or {limit(NAME):g} s are over (>), those of reading the text in "
            f"not among them; the table and the figure count both. {seeds().capitalize()}; {PAIRED}. Accuracy after a "
            "pass is that of the w published last; rows on disk make all their sweeps in one pass."
        )
        yield from prose(described(data))
        runs: Runs = {name: [] for name in CONTENDERS}
        for seed in range(SEEDS):
            add(NAME, runs, data, (C, CACHE, seed, SPEED))
        ball = kept(NAME, ("ball", data.manifest.n_rows, C, SPEED), lambda: _grown(data))
        seconds = data.seconds + ball["seconds"]
    found: dict[Problem, Runs] = {(data.name, C, SPEED): runs}
    known = optima(found)
    yield from table(found, known)
    yield from prose(
        f"A ball that grows (`ball.py`: Rai and others, squared hinge loss) in one pass, {seconds:.0f} s: "
        f"{ball['accuracy']:.2%} right. Its seconds are those of the disk or of its processor, whichever are more."
    )
    yield save(_figure(found, known, (seconds, ball["accuracy"])), NAME)
    yield ""
    yield from verdicts(found, known)


def _grown(data: Text) -> dict[str, float]:
    """Seconds and accuracy of a ball that has taken each row once, in the order of the blocks."""
    dataset = Dataset(data.dataset)
    ball = Ball(len(dataset.numbers), C)
    ball.take(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32), np.zeros(0))  # compiles it
    began = time.process_time()
    for location in dataset.all_pieces():
        rows = dataset.piece(location).rows
        ball.take(rows.indptr, rows.indices, rows.values, np.where(rows.label > 0, 1.0, -1.0))
    seconds = max(time.process_time() - began, data.manifest.stored_bytes / (SPEED * 1e6))
    assert data.test is not None
    return {"seconds": seconds, "accuracy": accuracy(data.test, weights(dataset, ball.w, 0))}


def _figure(found: dict[Problem, Runs], known: dict[Problem, Optimum], ball: tuple[float, float]) -> Figure:
    (key, runs), *_ = found.items()
    best = known[key].value
    figure, ((objective, distance, wrong),) = panels_of(1, 3, (12, 4.2))
    for axes, label, of in (
        (objective, "(D* - D) / D*", lambda each: off(each, best)),
        (distance, "M+ - M-", lambda each: max(each["gap"], _LEAST)),
        (wrong, "share of test rows on the wrong side", lambda each: max(1 - each["accuracy"], _LEAST)),
    ):
        shown = "accuracy" if axes is wrong else "gap"
        draw_bands(axes, {name: [_curve(run, shown, of) for run in own] for name, own in runs.items()})
        axes.set_xlabel("seconds by the clock", fontsize=8)
        axes.set_ylabel(label, fontsize=8)
    wrong.set_yscale("linear")
    wrong.plot(ball[0], 1 - ball[1], "k*", markersize=9, label="a ball that grows")
    figure.suptitle(where(key), fontsize=9)
    one_legend(figure, (objective, distance, wrong), len(CONTENDERS) + 1)
    return figure


def _curve(run: Run, known: str, of: Callable[[dict[str, Any]], float]) -> Curve:
    """Return what `of` makes of the points of a run for which the figure `known` is known."""
    return [(run.read_in + each["elapsed_seconds"], of(each)) for each in run.points if each.get(known) is not None]
