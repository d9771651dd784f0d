"""Jobs of OCAS and CPA with their bounds after each pass, and how much two threads can do on this machine."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import jobs
from tests.bench.papers.runs import SEEDS, kept, limit
from tests.bench.papers.streamsvm_jobs import read_text
from tests.bench.real_data import rows_of
from tests.contracts.problems import random_problem
from tests.reference.optima import OPTIMA

LARGE = "2GB"  # of generated text, unless SIZE of the environment says otherwise
TOLERANCE = 1e-3  # the paper's: of the objective at w = 0
MORE_THREADS = 2
# The paper keeps all cuts.
MOST_CUTS = 1000
_BYTES_OF_CUTS = 2 << 30
LIMIT = limit("ocas")
SCANS = {"ocas": 2, "cpa": 1}  # an iteration
_WORK = bytes(64 << 20)  # what `two_cores` has to do: about 0.1 s


@dataclass(frozen=True)
class Job:
    """A job that has run.

    passes     (seconds since its start, F(w_b), Q_D) of each pass
    primal     F of its model, from scratch
    converged  whether it ended by the rule
    """

    passes: list[tuple[float, float, float]]
    primal: float
    converged: bool

    @property
    def seconds(self) -> float:
        return self.passes[-1][0]

    @property
    def pass_seconds(self) -> float:
        """Seconds of a pass after the first."""
        return (self.seconds - self.passes[0][0]) / max(1, len(self.passes) - 1)

    def brackets(self, optimum: float) -> bool:
        """Whether the optimum is between both bounds at every pass. The table of optima is good to 1e-8."""
        return all(lower <= optimum * (1 + 1e-12) and optimum <= upper * (1 + 1e-8) for _, upper, lower in self.passes)


@dataclass(frozen=True)
class Measured:
    """Repeats of jobs on a problem; all rows are cached, except where one is streamed.

    found     jobs of each solver
    streamed  OCAS with a smaller cache, `share` of the rows
    threaded  OCAS with MORE_THREADS
    capacity  how many times as much work MORE_THREADS threads did as one, just before each job of `threaded`
    """

    name: str
    C: float
    found: dict[str, list[Job]]
    streamed: list[Job]
    share: float
    threaded: list[Job]
    capacity: list[float]

    @property
    def title(self) -> str:
        return f"{self.name}, C = {self.C:g}"

    @property
    def optimum(self) -> float:
        return OPTIMA[self.name, self.C]

    def iterations(self, solver: str) -> float:
        return len(self.found[solver][0].passes) / SCANS[solver]

    @property
    def speed_ups(self) -> list[float]:
        """Times that MORE_THREADS make a pass of OCAS faster, a number a repeat."""
        pairs = zip(self.found["ocas"], self.threaded, strict=True)
        return [one.pass_seconds / more.pass_seconds for one, more in pairs]

    @property
    def milliseconds(self) -> float:
        """Milliseconds of a pass of OCAS with one thread."""
        return 1e3 * median(job.pass_seconds for job in self.found["ocas"])


def compile_all(dataset: Path) -> None:
    """So that no job that is measured has to."""
    jobs.ingested(dataset, *random_problem())
    for solver in SCANS:
        for threads in (1, MORE_THREADS):
            jobs.train(dataset, solver=solver, max_passes=10, threads=threads)


def measured(directory: Path, name: str, C: float) -> Measured:
    """All jobs on a problem, SEEDS times in turn."""
    dataset = directory / name
    if not dataset.exists():
        jobs.ingested(dataset, *rows_of(name))
    manifest = read_manifest(dataset)
    whole, part = jobs.whole(manifest), manifest.decoded_bytes // 4
    ways: dict[str, dict[str, Any]] = {
        "ocas": {"solver": "ocas", "cache_bytes": whole},
        "threaded": {"solver": "ocas", "cache_bytes": whole, "threads": MORE_THREADS},
        "streamed": {"solver": "ocas", "cache_bytes": part},
        "cpa": {"solver": "cpa", "cache_bytes": whole},
    }
    found: dict[str, list[Job]] = {way: [] for way in ways}
    capacity = []
    for seed in range(SEEDS):
        for way, fields in ways.items():
            if way == "threaded":
                capacity.append(kept("ocas", (name, C, "capacity", seed), two_cores))
            run = kept("ocas", (name, C, way, seed), lambda fields=fields: _train(dataset, C, **fields))
            found[way].append(Job(**run))
    solvers = {solver: found[solver] for solver in SCANS}
    return Measured(name, C, solvers, found["streamed"], part / manifest.decoded_bytes, found["threaded"], capacity)


def large() -> Measured:
    """A few passes of OCAS over text of which a pass takes a second, with one thread and with MORE_THREADS."""
    found: dict[int, list[Job]] = {1: [], MORE_THREADS: []}
    capacity = []
    with read_text("generated", LARGE) as text:
        assert text is not None
        for seed in range(SEEDS):
            capacity.append(kept("ocas", (LARGE, "capacity", seed), two_cores))
            for threads, own in found.items():
                fields = {
                    "cache_bytes": jobs.whole(text.manifest),
                    "max_passes": 8,
                    "threads": threads,
                    "solver": "ocas",
                }
                key = LARGE, "generated", threads, seed
                own.append(Job(**kept("ocas", key, lambda fields=fields: _train(text.dataset, 1.0, **fields))))
    return Measured("generated", 1.0, {"ocas": found[1]}, [], 0.0, found[MORE_THREADS], capacity)


def _train(dataset: Path, C: float, threads: int = 1, max_passes: int = 1_000_000, **fields: Any) -> dict[str, Any]:
    # Fewer cuts where the weights are so long that they would fill the memory.
    most_cuts = min(MOST_CUTS, _BYTES_OF_CUTS // (8 * read_manifest(dataset).width))
    done = jobs.train(
        dataset, C=C, threads=threads, max_cuts=most_cuts, tolerance=TOLERANCE, max_passes=max_passes,
        max_seconds=LIMIT, **fields,
    )  # fmt: skip
    passes = [(one["elapsed_seconds"], one["primal_bound"], one["dual_objective"]) for one in done.passes]
    return {
        "passes": passes,
        "primal": done.certificate["primal_objective"],
        "converged": bool(done.result["converged"]),
    }


def two_cores() -> float:
    """Measure how many times as much MORE_THREADS threads do as one: fewer where other work goes on."""
    with ThreadPoolExecutor(MORE_THREADS) as pool:
        # One that nobody disturbed, against what is usual now.
        return MORE_THREADS * min(_seconds(pool, 1)) / median(_seconds(pool, MORE_THREADS))


def _seconds(pool: ThreadPoolExecutor, threads: int) -> list[float]:
    """Seconds that so many threads take, each for the same work; several times."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        list(pool.map(lambda _: hashlib.sha256(_WORK).digest(), range(threads)))
        times.append(time.perf_counter() - began)
    return times
