"""What reader and trainer are told of a job: the contents of `run.json`."""

from dataclasses import asdict
from typing import Any

from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.memory import threads_of
from streamsvm.storage.options import options_of
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.solvers import SOLVERS

_BOTH = {"loss", "epsilon", "seed"}
_TRAINER_ALONE = {
    "solver", "pace", "tolerance", "relative_gap", "max_passes", "max_seconds", "checkpoint_seconds"
}  # fmt: skip


def run_file(
    spec: JobSpec,
    cache: CachePlan,
    cores: int,
    n_rows: int,
    width: int,
    C: tuple[float, float],
    lane: dict[str, Any],
    group: Group | Classes | None,
    has_weights: bool,
    reader: dict[str, Any],
    trainer: dict[str, Any],
) -> dict[str, Any]:
    """Contents of `run.json`: what lanes are run, what a job tells both processes, and what only one of them is told.

    C  the largest of all lanes
    """
    shared = {
        "cache": asdict(cache),
        "maps": None,
        "n_rows": n_rows,
        "width": width,
        "C_positive": C[0],
        "C_negative": C[1],
        "group": group and asdict(group),
        "has_weights": has_weights,
        **spec.model_dump(include=_BOTH),
    }
    solver = SOLVERS[spec.solver]
    options = asdict(spec.options)
    own = {
        # Beyond the cores, threads would only hold more of what is read ahead.
        "threads": min(spec.threads or cores, cores),
        **{name: options[name] for name, known in options_of(solver.options).items() if known.for_reader},
        "part_rows": None,
        "exact": spec.pace == "fixed",
        "evicts": solver.evicts,
        "is_dual": solver.is_dual,
        "has_kernel": solver.has_kernel,
    }
    rest = spec.model_dump(include=_TRAINER_ALONE)
    return {
        "lane": lane,
        "reader": {**shared, **reader, **own},
        "trainer": {
            **shared,
            **trainer,
            **rest,
            "lane": lane["number"],
            "share_of_gap": None,
            "options": options,
            "threads": threads_of(spec, cores),
        },
    }


def spills(spec: JobSpec) -> bool:
    """Whether the active set is to be kept on the disk of the data: pace "fixed" leaves no time to visit it there."""
    return getattr(spec.options, "spill", False) and spec.pace == "adaptive"
