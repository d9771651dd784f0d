"""StreamSVM and others to the same objective: seconds and memory, the stages, and the ratios that are promised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench import jobs, reading
from tests.bench.curve import LEVELS, REPEATS, difference, median_or_none
from tests.bench.measurement import CONTENDERS, JUDGED, Comparison, compare
from tests.bench.peers import PEERS
from tests.bench.peers.liblinear import DEFAULT_EPS, setting
from tests.bench.peers.measure import seconds_are
from tests.bench.plots import plot
from tests.bench.prepared import Prepared, prepare_generated, prepare_real, size_limit
from tests.bench.report import cell, header, prose, row
from tests.reference.data import available

# name -> (data set of tests.reference.data it is made of, or None; what makes it in a directory)
DATA: dict[str, tuple[str | None, Callable[[Path], Prepared]]] = {
    "imdb.train": ("imdb.train", partial(prepare_real, name="imdb.train")),
    "a9a": ("a9a", partial(prepare_real, name="a9a")),
    "mnist8": ("mnist.train", partial(prepare_real, name="mnist8")),
    "generated": (None, lambda directory: prepare_generated(directory, size_limit())),
}


def run(names: tuple[str, ...] = tuple(DATA)) -> Iterator[str]:
    """Lines of Markdown."""
    compiling = jobs.compile_seconds()
    yield from prose(
        f"Hinge loss, C = 1, no bias; StreamSVM's cache is a tenth of the decoded data. Medians of {REPEATS}, all in "
        f"turn. Compiling, {compiling:.1f} s on the first run of a machine, was done before. {reading.how()}."
    )
    found = []
    for name in names:
        file, prepare = DATA[name]
        if file is not None and not available(file):
            yield from prose(f"{name}: not available.")
            continue
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            found.append(compare(name, prepare(Path(directory) / name)))
            yield from _levels_table(found[-1])
    yield from _stages_table(found)
    yield from _ratios_table(found)


def _levels_table(found: Comparison) -> Iterator[str]:
    data = found.data
    yield f"### {found.name}"
    yield ""
    yield from prose(
        f"{data.n_rows:,} rows x {data.n_features:,}, {data.nnz:,} non-zeros, {data.text_bytes / 1e6:,.1f} MB of text; "
        f"cache {found.cache_bytes / 1e6:.1f} MB; optimum {found.optimum:.8g}, certified to {found.optimum_gap:.0e}. "
        "*to*: seconds until the objective was so near to the optimum (relative difference), between two measured "
        "points interpolated with its logarithm; *best*: the nearest it came, and it was stopped soon after the last "
        "level. *loaded*, *training*: peak memory, MB."
    )
    yield f"![curves]({plot(found).relative_to(Path(__file__).parent)})"
    yield ""
    levels = [f"to {level:.0e}" for level in LEVELS]
    yield from header("solver", "seconds are", *levels, "best", "loaded", "training", words=2)
    for name in (*CONTENDERS, *PEERS):
        yield _levels_row(found, name)
    yield ""


def _levels_row(found: Comparison, name: str) -> str:
    if name in PEERS:
        measured = found.peers[name][-1]
        if measured.cannot_run:
            return row(name, measured.cannot_run, *[""] * (len(LEVELS) + 3))
        words = seconds_are(name)
        loaded = _megabytes([one.loaded_bytes for one in found.peers[name]])
        training = _megabytes([one.peak_bytes for one in found.peers[name]])
    else:
        words = "start of both processes and training, from blocks on disk"
        loaded = ""
        training = _megabytes([job.peak_bytes for job in found.jobs[name]])
    seconds = [cell(found.seconds_to(name, level)) for level in LEVELS]
    objectives = (point.objective for curve in found.curves[name] for point in curve)
    best = difference(min(objectives), found.optimum)
    return row(name, words, *seconds, f"{best:.1e}", loaded, training)


def _stages_table(all_found: list[Comparison]) -> Iterator[str]:
    yield "### Stages"
    yield ""
    yield from prose(
        "Seconds. *start*: of the processes; *train*: from there; *certify*: the last pass; *end to end*: all stages "
        "and ingest. *command*: `streamsvm train FILE --relative-gap` as a user has it, which stops by its own "
        "certificate, and how near it came. *peak*: MB. LIBLINEAR's *trains* is at its default tolerance."
    )
    names = [f"{what} {level:.0e}" for what in ("train", "end to end", "command") for level in JUDGED]
    yield from header(
        "data", "ingest", "start", *names[:2], "certify", *names[2:], "came to", "peak ingest", "peak job",
        "LIBLINEAR reads", "trains", "came to", "whole run",
    )  # fmt: skip
    for found in all_found:
        yield _stages_row(found)
    yield ""


def _stages_row(found: Comparison) -> str:
    start = found.start_seconds
    reached = (found.seconds_to("streamsvm", level) for level in JUDGED)
    trains = [cell(None if seconds is None else seconds - start) for seconds in reached]
    commands = [cell(command_seconds(found, level)) for level in JUDGED]
    return row(
        found.name,
        cell(found.ingest_seconds),
        cell(start),
        *trains,
        cell(found.certify_seconds),
        *[cell(found.end_to_end(level)) for level in JUDGED],
        *commands,
        ", ".join(_command_came_to(found, level) for level in JUDGED),
        _megabytes([command.peak_bytes for command in found.ingests]),
        _megabytes([job.peak_bytes for job in found.jobs["streamsvm"]]),
        cell(found.reading_seconds),
        cell(found.default_training),
        _default_came_to(found),
        cell(found.whole_seconds),
    )


def command_seconds(found: Comparison, level: float) -> float:
    """Median of `streamsvm train` to a certified gap of `level`."""
    return median(command.seconds for command in found.commands[level])


def _ratios_table(all_found: list[Comparison]) -> Iterator[str]:
    others = [name for name in CONTENDERS if name != "streamsvm"]
    yield "### Ratios"
    yield ""
    yield from prose(
        "To the same objective, LIBLINEAR's seconds (or the other solver's) over StreamSVM's: more than 1, StreamSVM "
        "is faster. *reading*: how long LIBLINEAR reads over StreamSVM's end to end; *whole run*: LIBLINEAR reads and "
        "trains at its default tolerance, against end to end; *command*: against the command; *next job*: against a "
        "second job (start, train, certify); *training*: training alone, to the same objective."
    )
    yield from header(
        "data",
        "to",
        "reading (> 1)",
        "whole run (>= 2)",
        "command (>= 2)",
        "next job (>= 4)",
        "training (>= 1)",
        *others,
    )
    for found in all_found:
        for level in JUDGED:
            yield row(found.name, f"{level:.0e}", *map(_times, ratios(found, level, others)))
    yield ""


def ratios(found: Comparison, level: float, others: list[str]) -> list[float | None]:
    """In the order of the table; None where one of the two did not get there."""
    ours, whole, end_to_end = found.seconds_to("streamsvm", level), found.whole_seconds, found.end_to_end(level)
    next_job = None if ours is None else ours + found.certify_seconds
    alone = None if ours is None else ours - found.start_seconds
    return [
        _ratio(found.reading_seconds, end_to_end),
        _ratio(whole, end_to_end),
        _ratio(whole, command_seconds(found, level)),
        _ratio(whole, next_job),
        _ratio(found.seconds_to("LIBLINEAR", level), alone),
        *[_ratio(found.seconds_to(other, level), ours) for other in others],
    ]


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return None if theirs is None or ours is None else theirs / ours


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _megabytes(sizes: list[int | None]) -> str:
    size = median_or_none([None if size is None else size / 1e6 for size in sizes])
    return cell(size, ",.0f")


def _command_came_to(found: Comparison, level: float) -> str:
    objective = found.commands[level][-1].output["result"]["certificate"]["primal_objective"]
    return f"{difference(objective, found.optimum):.1e}"


def _default_came_to(found: Comparison) -> str:
    points = (point for point in found.peers["LIBLINEAR"][-1].points if point.setting == setting(DEFAULT_EPS))
    return next((f"{difference(point.objective, found.optimum):.1e}" for point in points), "-")
