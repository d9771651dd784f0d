"""Many models from one stream: values of C, classes, folds in one job, against a job of one of them and LIBLINEAR."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from storage import kept_rows
from storage.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import REPEATS
from tests.bench.generate import generate
from tests.bench.prepared import size_limit
from tests.bench.relabel import relabel
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import CORES
from tests.reference.data import available, text

VALUES = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
CLASSES, FOLDS = 20, 5
RELATIVE_GAP = 1e-3
MOST_SECONDS = 900.0
LIBLINEAR = "liblinear-train"
PARTS = ("C", "generated", "news20", "mnist")


@dataclass(frozen=True)
class Task:
    """What is done on a dataset: by us, by us for one of its problems, and by LIBLINEAR's program."""

    name: str
    many: dict
    one: dict
    liblinear: list[list[str]]


def run(part: str) -> Iterator[str]:
    """Lines of Markdown."""
    commands.compile_seconds()
    yield from prose(
        f"Hinge loss, no bias, cache a tenth of the decoded data, until every lane is certified to {RELATIVE_GAP:g}; "
        f"medians of {REPEATS} in turn, {CORES} cores. *lanes*: a job on a dataset that has been read in, no rows kept "
        "of it, from the start of its processes. *one*: the same of one problem, C = 1. *LIBLINEAR*: its program with "
        "its own -e, reading the text each time, all its runs together."
    )
    names = "lanes, s", "one, s", "lanes / one", "LIBLINEAR, s", "LIBLINEAR / lanes", "MB"
    yield from header("data", "what", *names, words=2)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        yield from _rows(Path(directory), part)


def _rows(directory: Path, part: str) -> Iterator[str]:
    source = directory / "text.svm"
    if part in ("C", "generated"):
        generate(source, size_bytes=size_limit())
        if part == "generated":
            relabel(source, CLASSES)
    elif not available(_FILES[part]):
        yield row(part, "not available", *["-"] * 6)
        return
    else:
        source.write_bytes(text(_FILES[part]))
    commands.ingest_command(source, directory / "dataset")
    for task in _tasks(part):
        yield _measured(directory, source, part, task)


_FILES = {"news20": "news20", "mnist": "mnist.train"}


def _tasks(part: str) -> Iterator[Task]:
    if part == "C":
        runs = [["-s", "3", "-c", f"{C:g}"] for C in VALUES]
        yield Task(f"{len(VALUES)} values of C, {VALUES[0]:g} to {VALUES[-1]:g}", {"C": VALUES}, {}, runs)
        folds = {"folds": FOLDS, "refit": False}
        yield Task(f"{FOLDS} folds", folds, {}, [["-s", "3", "-v", str(FOLDS)]])
    else:
        yield Task("classes, one against the rest", {}, {}, [["-s", "3"]])
        yield Task("classes, Crammer and Singer", {"multiclass": "crammer_singer"}, {}, [["-s", "4"]])


def _measured(directory: Path, source: Path, part: str, task: Task) -> str:
    many: list[jobs.Finished] = []
    one: list[jobs.Finished] = []
    theirs: list[float] = []
    for _ in range(REPEATS):
        many.append(_job(directory / "dataset", **task.many))
        if part == "C":
            one.append(_job(directory / "dataset", **task.one))
        theirs.append(sum(_liblinear(source, options) for options in task.liblinear))
    if not all(each["converged"] for job in many for each in job.results):
        return row(part, task.name, f"not certified after {MOST_SECONDS:.0f} s", *["-"] * 5)
    ours, single = _median(many), _median(one)
    peer = median(theirs)
    return row(
        part,
        task.name,
        cell(ours),
        cell(single),
        cell(ours and single and ours / single),
        cell(peer),
        cell(ours and peer / ours),
        max(job.peak_bytes for job in many) // 10**6,
    )


def _median(several: list[jobs.Finished]) -> float | None:
    return median(job.seconds for job in several) if several else None


def _job(dataset: Path, **fields: object) -> jobs.Finished:
    kept_rows.release(dataset)
    cache_bytes, _ = jobs.tenth(read_manifest(dataset))
    return jobs.train_all(
        dataset,
        cache_bytes=cache_bytes,
        tolerance=None,
        relative_gap=RELATIVE_GAP,
        max_passes=10**6,
        max_seconds=MOST_SECONDS,
        **fields,
    )


def _liblinear(source: Path, options: list[str]) -> float:
    with tempfile.NamedTemporaryFile(prefix="model-") as model:
        words = [LIBLINEAR, "-q", "-B", "-1", *options, str(source)]
        return commands.launch(words if "-v" in options else [*words, model.name]).spent.seconds
