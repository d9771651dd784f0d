"""StreamSVM's own solvers as the comparison runs them: jobs that end by their certificate, a level at a time."""

from __future__ import annotations

from pathlib import Path

from tests.bench import jobs
from tests.bench.curve import LEVELS, Point

C = 1.0
MOST_SECONDS = 60.0

# The solvers that do with a tenth of the data in the cache and have a dual objective. All but the first are optional.
CONTENDERS: dict[str, dict[str, str | bool]] = {
    "streamsvm": {},
    "no-spill": {"spill": False},
    "paper": {"solver": "streamsvm_paper"},
    "sbm": {"solver": "sbm"},
    "bm": {"solver": "bm"},
}


def climb(name: str, dataset: Path, cache_bytes: int) -> dict[float, jobs.Finished]:
    """A job for each of LEVELS, asked for that relative gap, until one has not certified it within MOST_SECONDS."""
    done: dict[float, jobs.Finished] = {}
    for level in LEVELS:
        done[level] = job(dataset, cache_bytes, level, name)
        if not done[level].result["converged"]:
            break
    return done


def job(dataset: Path, cache_bytes: int, level: float, name: str = "streamsvm") -> jobs.Finished:
    """One that ends at this relative gap, certified, or after MOST_SECONDS."""
    return jobs.train(
        dataset, C=C, cache_bytes=cache_bytes, tolerance=None, relative_gap=level, max_passes=10**6,
        max_seconds=MOST_SECONDS, **CONTENDERS[name],
    )  # fmt: skip


def points(done: dict[float, jobs.Finished]) -> tuple[Point, ...]:
    """What each job came to: the objective of its certificate, after all that it took."""
    return tuple(
        Point(job.spent, job.certificate["primal_objective"], f"gap {level:.0e}") for level, job in done.items()
    )
