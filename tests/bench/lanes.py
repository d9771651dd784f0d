"""Many models from one stream: values of C, classes, folds in one job, against a job of one of them and LIBLINEAR."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.generate import generate
from tests.bench.prepared import size_limit
from tests.bench.relabel import relabel
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import CORES, REPEATS
from tests.reference.data import available, text

CLASSES, FOLDS = 20, 5
RELATIVE_GAP = 1e-3
MOST_SECONDS = 900.0
LIBLINEAR = "liblinear-train"
_FILES = {"news20": "news20", "mnist": "mnist.train"}
_OBJECTIVE = re.compile(rb"Objective value = (-?[\d.e+]+)")


@dataclass(frozen=True)
class Task:
    """What is done on a dataset: by us, and by LIBLINEAR's program, in one run or several."""

    name: str
    many: dict
    liblinear: list[list[str]]


def _of_C(values: list[float]) -> Task:
    runs = [["-s", "3", "-c", f"{C:g}"] for C in values]
    return Task(f"{len(values)} values of C, {values[0]:g} to {values[-1]:g}", {"C": values}, runs)


_CLASSES = Task("classes, one against the rest", {}, [["-s", "3"]])
_JOINT = Task("classes, Crammer and Singer", {"multiclass": "crammer_singer"}, [["-s", "4"]])
# part -> data, task
PARTS: dict[str, tuple[str, Task]] = {
    "C": ("text", _of_C([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0])),
    "C-wide": ("text", _of_C([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])),
    "folds": ("text", Task(f"{FOLDS} folds", {"folds": FOLDS, "refit": False}, [["-s", "3", "-v", str(FOLDS)]])),
    **{f"classes-{data}": (data, _CLASSES) for data in ("generated", "news20", "mnist")},
    **{f"joint-{data}": (data, _JOINT) for data in ("generated", "news20", "mnist")},
}


@dataclass(frozen=True)
class Theirs:
    """All runs of LIBLINEAR's program: seconds, and the dual objective of each problem, by our order of them."""

    seconds: float
    dual_objectives: list[float]


def run(*parts: str) -> Iterator[str]:
    """Lines of Markdown for some of PARTS."""
    commands.compile_kernels()
    yield from prose(
        f"Hinge loss, no bias, until every lane is certified to {RELATIVE_GAP:g}; medians of {REPEATS} in turn, "
        f"{CORES} cores. Cache: a tenth of the data where it is generated, else as jobs have it. *lanes*: a job "
        "on a dataset that has been read in, no rows kept of it, from the start of its processes. *one*: the same of "
        "one problem, C = 1. *LIBLINEAR*: its program with its own -e, reading the text each time, all its runs "
        "together; *short of*: by how much its dual objective is below the certified one, relative, at worst."
    )
    names = "lanes, s", "core s", "one, s", "lanes / one", "LIBLINEAR, s", "LIBLINEAR / lanes", "short of", "MB"
    yield from header("data", "what", *names, words=2)
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield from _rows(Path(directory), part)


def _rows(directory: Path, part: str) -> Iterator[str]:
    (data, task), source = PARTS[part], directory / "text.svm"
    if data in _FILES and not available(_FILES[data]):
        yield row(data, "not available", *["-"] * 8)
        return
    if data in _FILES:
        source.write_bytes(text(_FILES[data]))
    else:
        generate(source, size_bytes=size_limit())
    if data == "generated":
        relabel(source, CLASSES)
    commands.ingest_command(source, directory / "dataset")
    yield _measured(directory, source, data, task)


def _measured(directory: Path, source: Path, data: str, task: Task) -> str:
    many: list[jobs.Finished] = []
    one: list[jobs.Finished] = []
    theirs: list[Theirs] = []
    for _ in range(REPEATS):
        many.append(_job(directory / "dataset", data, **task.many))
        if data == "text":
            one.append(_job(directory / "dataset", data))
        runs = [_liblinear(source, options) for options in task.liblinear]
        theirs.append(Theirs(sum(each.seconds for each in runs), [D for each in runs for D in each.dual_objectives]))
    if not all(each["converged"] for job in many for each in job.results):
        return row(data, task.name, f"not certified after {MOST_SECONDS:.0f} s", *["-"] * 7)
    ours, peer = median(job.seconds for job in many), median(each.seconds for each in theirs)
    single = median(job.seconds for job in one) if one else None
    return row(
        data,
        task.name,
        cell(ours),
        cell(median(job.spent.core_seconds or 0.0 for job in many)),
        cell(single),
        cell(single and ours / single),
        cell(peer),
        cell(peer / ours),
        cell(_short_of(many[-1], theirs[-1]), ".1e"),
        max(job.peak_bytes for job in many) // 10**6,
    )


def _short_of(ours: jobs.Finished, theirs: Theirs) -> float | None:
    """In the worst problem; None: of folds nobody says."""
    certified = [result["certificate"]["dual_objective"] for result in ours.results]
    if len(certified) != len(theirs.dual_objectives):
        return None
    return max((D - own) / D for D, own in zip(certified, theirs.dual_objectives, strict=True))


def _job(dataset: Path, data: str, **fields: object) -> jobs.Finished:
    cache = {"cache_bytes": jobs.tenth(read_manifest(dataset))[0]} if data not in _FILES else {}
    wanted = {"tolerance": None, "relative_gap": RELATIVE_GAP, "max_passes": 10**6, "max_seconds": MOST_SECONDS}
    return jobs.train_all(dataset, **cache, **wanted, **fields)


def _liblinear(source: Path, options: list[str]) -> Theirs:
    with tempfile.NamedTemporaryFile(prefix="model-") as model:
        words = [LIBLINEAR, "-B", "-1", *options, str(source)]
        if "-v" in options:
            return Theirs(commands.launch(words).spent.seconds, [])
        ended = commands.launch([*words, model.name])
        found = [-float(each) for each in _OBJECTIVE.findall(ended.printed)]
        labels = next(line for line in model.read().splitlines() if line.startswith(b"label"))
    order = sorted(range(len(found)), key=lambda k: float(labels.split()[1 + k]))
    return Theirs(ended.spent.seconds, [found[k] for k in order])
