"""The search for C, `C: "auto"`, beside LIBLINEAR's -C: seconds, the C that each chooses, its accuracy in 5 folds."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.service.forks.fork_server import fork_server
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.local import LocalTraining
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.real_data import is_there, rows_of
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import CORES, REPEATS
from tests.reference.data import load

FOLDS, MOST_SECONDS = 5, 900.0
_CLASSES = ("dna", "letter", "mnist.train")  # sets of more than two classes
_GENERATED = "like-w8a"
SETS = ("dna", "a9a", _GENERATED, "letter", "skin_nonskin", "imdb.train", "mnist.train")


@dataclass(frozen=True)
class Chosen:
    """A finished search: its seconds, with those of the model at the C that it chose, and that C's accuracy."""

    seconds: float
    C: float
    accuracy: float


def run(*names: str) -> Iterator[str]:
    """Lines of Markdown for some of SETS."""
    yield from prose(
        f"Squared hinge loss, bias 1, {FOLDS} folds, {CORES} cores; {_GENERATED} is generated. The fastest of "
        f"{REPEATS} runs in turn, as other work shares the cores. *ours*: a job from the dataset that was read in to "
        "the model of all rows, certified to a relative gap of 1e-4. *LIBLINEAR*: its -C (-s 2), then its model at "
        "that C, on rows in memory."
    )
    yield from header("data", "ours, s", "LIBLINEAR, s", "ours / LIBLINEAR", "C", "its C", "accuracy", "its accuracy")
    commands.compile_kernels()
    for name in names:
        yield _measured(name) if name == _GENERATED or is_there(name) else row(name, "not available", *["-"] * 6)


def _measured(name: str) -> str:
    X, y = _like_w8a() if name == _GENERATED else load(name) if name in _CLASSES else rows_of(name)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        dataset = jobs.ingested(Path(directory) / "dataset", X, y)
        ours = [_ours(dataset) for _ in range(REPEATS)]
    theirs = _in_time(X, y)
    own = min(ours, key=lambda each: each.seconds)
    if theirs is None:
        return row(name, cell(own.seconds), f"> {MOST_SECONDS:.0f}", "-", f"{own.C:g}", "-", f"{own.accuracy:.4f}", "-")
    ratio = cell(own.seconds / theirs.seconds)
    accuracies = f"{own.accuracy:.4f}", f"{theirs.accuracy:.4f}"
    return row(name, cell(own.seconds), cell(theirs.seconds), ratio, f"{own.C:g}", f"{theirs.C:g}", *accuracies)


def _like_w8a(n_rows: int = 49_749, n_features: int = 300) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return rows as of w8a: few ones among 300 features, some usual and most rare, and 3% of rows in class 1."""
    rng = np.random.default_rng(0)
    often = np.minimum(0.5, 2.2 / np.arange(1, n_features + 1))
    X = sparse.csr_matrix(rng.random((n_rows, n_features)) < often, dtype=np.float64)
    values = X @ rng.normal(size=n_features) + rng.logistic(scale=0.5, size=n_rows)
    return X, np.where(values > np.quantile(values, 0.97), 1.0, -1.0)


def _ours(dataset: Path) -> Chosen:
    fork_server()  # a worker has one already
    spec = parse_spec({"dataset": "bench", "C": "auto", "loss": "squared_hinge", "folds": FOLDS})
    with jobs.scratch() as work:
        began = time.perf_counter()
        training = LocalTraining(work, dataset, Settings.from_environment(), lambda *_: None)
        trained = training.all_lanes(plan_job(spec, read_manifest(dataset)))
        seconds = time.perf_counter() - began
    found = {each["C"]: each["mean"]["accuracy"] for each in trained.folds["cv"]}
    C = trained.folds["selected_C"]
    return Chosen(seconds, C, found[C])


def _in_time(X: Any, y: Any) -> Chosen | None:
    """Return what LIBLINEAR chooses, by the faster of REPEATS runs; None: it takes longer than MOST_SECONDS."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=_liblinear, args=(X, y, found), daemon=True)
    process.start()
    try:
        return found.get(timeout=MOST_SECONDS)
    except Empty:
        return None
    finally:
        process.kill()
        process.join()


def _liblinear(X: Any, y: Any, found: Any) -> None:
    from liblinear import liblinear as binding  # noqa: PLC0415 - in its own process
    from liblinear import liblinearutil  # noqa: PLC0415

    problem = binding.problem(y, X, bias=1)
    runs = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        C, _, accuracy = liblinearutil.train(problem, f"-C -s 2 -B 1 -v {FOLDS} -q")
        liblinearutil.train(problem, f"-s 2 -B 1 -c {C!r} -q")
        runs.append(Chosen(time.perf_counter() - began, C, accuracy))
        if runs[0].seconds > MOST_SECONDS / (REPEATS + 1):
            break
    found.put(min(runs, key=lambda each: each.seconds))
