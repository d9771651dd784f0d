"""StreamSVM and others to the same objective, in turn: seconds, core seconds and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, jobs
from tests.bench.curve import LEVELS, REPEATS, difference, median_or_none, median_spent_to
from tests.bench.peers import PEERS
from tests.bench.peers.measure import MOST_SECONDS as PEER_SECONDS
from tests.bench.peers.measure import Measured, measure, seconds_are
from tests.bench.prepared import Prepared, prepare_generated, prepare_real, size_limit
from tests.bench.real_data import is_there
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent, median_spent
from tests.reference.optima import GAPS, OPTIMA

C, MOST_SECONDS = 1.0, 60.0
_REAL = ("imdb.train", "a9a", "mnist8", "news20", "skin_nonskin")
# Certifies the optimum where none is known.
_EXACT = {"C": C, "tolerance": None, "relative_gap": 1e-6, "max_passes": 10**6, "max_seconds": 600.0}

# name -> what makes it in a directory
DATA: dict[str, Callable[[Path], Prepared]] = {
    "generated": lambda directory: prepare_generated(directory, size_limit()),
    **{name: partial(prepare_real, name=name) for name in _REAL},
}


@dataclass
class Comparison:
    """Measurements of one data set; each list has an entry a repeat.

    optimum      least objective known, at most `optimum_gap` (relative) above the least there is
    cache_bytes  of every StreamSVM job
    jobs         a job for each level that was asked for
    peers        by name
    """

    data: Prepared
    cache_bytes: int
    optimum: float
    optimum_gap: float
    jobs: list[dict[float, jobs.Finished]] = field(default_factory=list)
    peers: dict[str, list[Measured]] = field(default_factory=dict)

    def next_job(self, level: float) -> Spent | None:
        """A job on the dataset as it is: start, training, certificates. None if the level was not certified."""
        return median_spent([_certified(done, level, "spent") for done in self.jobs])

    def training(self, level: float) -> Spent | None:
        """The same without the start of its processes."""
        return median_spent([_certified(done, level, "training") for done in self.jobs])

    def peer(self, name: str, level: float) -> Spent | None:
        """Training of a peer until its objective was within `level` of the optimum."""
        return median_spent_to([found.points for found in self.peers[name]], self.optimum, level)

    def objectives(self, name: str) -> list[float]:
        """All that StreamSVM ("streamsvm") or a peer came to: of a job that of its certificate."""
        if name == "streamsvm":
            return [job.certificate["primal_objective"] for done in self.jobs for job in done.values()]
        return [point.objective for found in self.peers[name] for point in found.points]


def _certified(done: dict[float, jobs.Finished], level: float, what: str) -> Spent | None:
    job = done.get(level)
    return getattr(job, what) if job and job.result["converged"] else None


def run(name: str) -> Iterator[str]:
    """Lines of Markdown for one of DATA."""
    if name in _REAL and not is_there(name):
        yield from prose("Not measured: the data is not available.")
        return
    commands.compile_kernels()
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        yield from _table(compare(name, DATA[name](Path(directory) / name)))


def compare(name: str, data: Prepared) -> Comparison:
    """Measure StreamSVM and all peers on a data set, REPEATS times in turn."""
    dataset = data.directory / "dataset"
    commands.ingest_command(data.text, dataset)
    found = Comparison(data, jobs.tenth(read_manifest(dataset))[0], *_optimum(name, dataset))
    for _ in range(REPEATS):
        found.jobs.append(_climb(dataset, found.cache_bytes))
        for peer in PEERS:
            # A little below the last level, which the optimum found afterwards may lower.
            enough = found.optimum * (1 + 0.8 * LEVELS[-1])
            found.peers.setdefault(peer, []).append(measure(peer, data, C, enough))
    return _with_best_optimum(found)


def _optimum(name: str, dataset: Path) -> tuple[float, float]:
    known = OPTIMA.get((name, C))
    if known is not None:
        return known, GAPS[name, C]
    certificate = jobs.train(dataset, cache_bytes=read_manifest(dataset).decoded_bytes // 2, **_EXACT).certificate
    return certificate["primal_objective"], certificate["relative_duality_gap"]


def _with_best_optimum(found: Comparison) -> Comparison:
    """Whoever came lowest has shown that the optimum is no higher."""
    dual = found.optimum * (1 - found.optimum_gap)
    found.optimum = min(found.optimum, *(P for name in ("streamsvm", *found.peers) for P in found.objectives(name)))
    found.optimum_gap = max(1 - dual / found.optimum, 0.0)
    return found


def _climb(dataset: Path, cache_bytes: int) -> dict[float, jobs.Finished]:
    """A job for each of LEVELS, asked for that relative gap, until one has not certified it within MOST_SECONDS."""
    done: dict[float, jobs.Finished] = {}
    for level in LEVELS:
        done[level] = jobs.train(
            dataset, C=C, cache_bytes=cache_bytes, tolerance=None, relative_gap=level, max_passes=10**6,
            max_seconds=MOST_SECONDS,
        )  # fmt: skip
        if not done[level].result["converged"]:
            break
    return done


def _table(found: Comparison) -> Iterator[str]:
    data = found.data
    yield from prose(
        f"{data.n_rows:,} rows x {data.n_features:,}, {data.nnz:,} non-zeros, {data.text_bytes / 1e6:,.1f} MB of text. "
        f"Hinge loss, C = 1, no bias; StreamSVM's cache is a tenth of the decoded data, {found.cache_bytes / 1e6:.1f} "
        f"MB; optimum {found.optimum:.8g}, certified to {found.optimum_gap:.0e}. Medians of {REPEATS}, all in turn; "
        "kernels were compiled before."
    )
    yield from prose(
        "*to*: of StreamSVM a job asked for this relative gap, its certificates included; of the others training until "
        "the objective was so near to the optimum (relative difference), between two measured points interpolated with "
        "its logarithm, nobody certifying it. *core*: core seconds, user and system time of all processes and threads. "
        f"*best*: the nearest it came; a job was given up after {MOST_SECONDS:.0f} s, a peer's trials, a run each, "
        f"soon after the last level or {PEER_SECONDS} s of all of them. *loaded*, *training*: peak memory, MB."
    )
    levels = [words for level in LEVELS for words in (f"to {level:.0e}, s", "core")]
    yield from header("solver", "seconds are", *levels, "best", "loaded", "training", words=2)
    yield _own_row(found, "streamsvm", "training and certificates, from blocks on disk", found.training)
    yield _own_row(found, "streamsvm, next job", "start of both processes, training, certificates", found.next_job)
    for name in found.peers:
        yield _peer_row(found, name)


def _own_row(found: Comparison, title: str, words: str, spent: Callable[[float], Spent | None]) -> str:
    peak = [max(job.peak_bytes for job in done.values()) for done in found.jobs]
    return row(title, words, *_levels(spent), _best(found, "streamsvm"), "", _megabytes(peak))


def _peer_row(found: Comparison, name: str) -> str:
    several = found.peers[name]
    if several[-1].cannot_run:
        return row(name, several[-1].cannot_run, *[""] * (2 * len(LEVELS) + 3))
    memory = _megabytes([one.loaded_bytes for one in several]), _megabytes([one.peak_bytes for one in several])
    return row(name, seconds_are(name), *_levels(partial(found.peer, name)), _best(found, name), *memory)


def _levels(spent: Callable[[float], Spent | None]) -> Iterator[str]:
    """Two cells a level."""
    for level in LEVELS:
        at = spent(level)
        yield from ("-", "-") if at is None else (cell(at.seconds), cell(at.core_seconds))


def _best(found: Comparison, name: str) -> str:
    objectives = found.objectives(name)
    return f"{difference(min(objectives), found.optimum):.1e}" if objectives else "-"


def _megabytes(sizes: list[int | None]) -> str:
    size = median_or_none([None if size is None else size / 1e6 for size in sizes])
    return cell(size, ",.0f")
