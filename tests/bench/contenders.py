"""StreamSVM as the comparison runs it: jobs that end by their certificate, a level at a time."""

from __future__ import annotations

from pathlib import Path

from tests.bench import jobs
from tests.bench.curve import LEVELS, Point

C = 1.0
MOST_SECONDS = 60.0


def climb(dataset: Path, cache_bytes: int) -> dict[float, jobs.Finished]:
    """A job for each of LEVELS, asked for that relative gap, until one has not certified it within MOST_SECONDS."""
    done: dict[float, jobs.Finished] = {}
    for level in LEVELS:
        done[level] = job(dataset, cache_bytes, level)
        if not done[level].result["converged"]:
            break
    return done


def job(dataset: Path, cache_bytes: int, level: float) -> jobs.Finished:
    """One that ends at this relative gap, certified, or after MOST_SECONDS."""
    return jobs.train(
        dataset, C=C, cache_bytes=cache_bytes, tolerance=None, relative_gap=level, max_passes=10**6,
        max_seconds=MOST_SECONDS,
    )  # fmt: skip


def points(done: dict[float, jobs.Finished]) -> tuple[Point, ...]:
    """What each job came to: the objective of its certificate, after all that it took."""
    return tuple(
        Point(job.spent, job.certificate["primal_objective"], f"gap {level:.0e}") for level, job in done.items()
    )
