"""StreamSVM and others to the same objective: seconds, core seconds and memory, the stages, and what is promised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench import commands, contenders, reading
from tests.bench.curve import LEVELS, REPEATS, difference, median_or_none
from tests.bench.measurement import Comparison, compare
from tests.bench.peers import measure
from tests.bench.prepared import Prepared, prepare_generated, prepare_real, size_limit
from tests.bench.real_data import is_there
from tests.bench.report import cell, header, prose, row
from tests.bench.stages import stages_table
from tests.bench.usage import Spent

_REAL = ("imdb.train", "a9a", "mnist8", "news20", "skin_nonskin")

# name -> what makes it in a directory
DATA: dict[str, Callable[[Path], Prepared]] = {
    "generated": lambda directory: prepare_generated(directory, size_limit()),
    **{name: partial(prepare_real, name=name) for name in _REAL},
}


def run(name: str) -> Iterator[str]:
    """Lines of Markdown for one of DATA."""
    if name in _REAL and not is_there(name):
        yield from prose("Not measured: the data is not available.")
        return
    commands.compile_seconds()
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        found = compare(name, DATA[name](Path(directory) / name))
        yield from _levels_table(found)
    yield from stages_table(found)


def _levels_table(found: Comparison) -> Iterator[str]:
    data = found.data
    yield from prose(
        f"{data.n_rows:,} rows x {data.n_features:,}, {data.nnz:,} non-zeros, {data.text_bytes / 1e6:,.1f} MB of text. "
        f"Hinge loss, C = 1, no bias; StreamSVM's cache is a tenth of the decoded data, {found.cache_bytes / 1e6:.1f} "
        f"MB; optimum {found.optimum:.8g}, certified to {found.optimum_gap:.0e}. Medians of {REPEATS}, all in turn; "
        f"kernels were compiled before. {reading.how()}."
    )
    yield from prose(
        "*to*: of StreamSVM a job asked for this relative gap, its certificates included; of the others training until "
        "the objective was so near to the optimum (relative difference), between two measured points interpolated with "
        "its logarithm, nobody certifying it. *core*: core seconds, user and system time of all processes and threads. "
        "*best*: the nearest it came; a job was given up after "
        f"{contenders.MOST_SECONDS:.0f} s, a peer's trials, a run each, soon after the last level or "
        f"{measure.MOST_SECONDS} s of all of them. *loaded*, *training*: peak memory, MB."
    )
    levels = [words for level in LEVELS for words in (f"to {level:.0e}, s", "core")]
    yield from header("solver", "seconds are", *levels, "best", "loaded", "training", words=2)
    yield _own_row(found, "streamsvm", "training and certificates, from blocks on disk", found.training)
    yield _own_row(found, "streamsvm, next job", "start of both processes, training, certificates", found.next_job)
    for name in found.peers:
        yield _peer_row(found, name)
    yield ""


def _own_row(found: Comparison, title: str, words: str, spent: Callable[[float], Spent | None]) -> str:
    peak = [max(job.peak_bytes for job in done.values()) for done in found.jobs]
    return row(title, words, *_levels(spent), _best(found, "streamsvm"), "", _megabytes(peak))


def _peer_row(found: Comparison, name: str) -> str:
    several = found.peers[name]
    if several[-1].cannot_run:
        return row(name, several[-1].cannot_run, *[""] * (2 * len(LEVELS) + 3))
    memory = _megabytes([one.loaded_bytes for one in several]), _megabytes([one.peak_bytes for one in several])
    return row(name, measure.seconds_are(name), *_levels(partial(found.peer, name)), _best(found, name), *memory)


def _levels(spent: Callable[[float], Spent | None]) -> Iterator[str]:
    """Two cells a level."""
    for level in LEVELS:
        at = spent(level)
        yield from ("-", "-") if at is None else (cell(at.seconds), cell(at.core_seconds))


def _best(found: Comparison, name: str) -> str:
    objectives = [point.objective for curve in found.curves()[name] for point in curve]
    return f"{difference(min(objectives), found.optimum):.1e}" if objectives else "-"


def _megabytes(sizes: list[int | None]) -> str:
    size = median_or_none([None if size is None else size / 1e6 for size in sizes])
    return cell(size, ",.0f")
