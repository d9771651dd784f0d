"""From a job and a dataset to what reader and trainer are told. Everything that can be refused is refused here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from service.blocks import count_blocks, kept_bytes, uses_blocks
from service.errors import ServiceError
from service.jobs import JobSpec
from service.lanes import Lane, labels_of, lanes_of, n_folds_of, shown
from service.memory import plan_memory, threads_of
from storage.cores import usable_cores
from storage.manifest import Manifest
from storage.objective import REGRESSION
from storage.plan import CachePlan
from storage.segment import TARGET
from storage.state import state_bytes
from trainer.solvers import SOLVERS
from trainer.solvers.options import options_of


@dataclass(frozen=True)
class JobPlan:
    """A job that can run on a dataset, a lane at a time.

    labels        what rows hold for those a model is to have
    lanes         its problems; number: of the one to be run
    cores         it may use
    passes_before, seconds_before: of the lanes before this one
    """

    spec: JobSpec
    manifest: Manifest
    labels: tuple[float, ...]
    lanes: tuple[Lane, ...]
    cache: CachePlan
    cores: int
    number: int = 0
    passes_before: int = 0
    seconds_before: float = 0.0

    @property
    def model_labels(self) -> tuple[float | str, ...]:
        """Those a model is to have, as they stood in the input."""
        return tuple(shown(label, self.manifest) for label in self.labels)

    @property
    def lane(self) -> Lane:
        """The one to be run."""
        return self.lanes[self.number]

    def next_lane(self, done: Sequence[Mapping[str, Any]]) -> "JobPlan":
        """The same with the first lane to be run that is not done; of those that are, what is kept of each."""
        passes = sum(each["result"]["passes"] for each in done)
        seconds = done[-1]["elapsed_seconds"] if done else 0.0
        return replace(self, number=len(done), passes_before=passes, seconds_before=seconds)

    @property
    def lane_spec(self) -> JobSpec:
        """The job as if it had this lane's C alone."""
        return self.spec.model_copy(update={"C": self.lane.C})

    @property
    def n_rows(self) -> int:
        """Length of alpha."""
        return self.manifest.n_rows

    @property
    def blocks(self) -> int:
        """Of a pass."""
        return self._partition or len(self.manifest.blocks)

    @property
    def _partition(self) -> int | None:
        return count_blocks(self.spec, self.manifest, self.cache) if uses_blocks(self.spec) else None

    @property
    def threads(self) -> int:
        """Of the trainer."""
        return threads_of(self.spec, self.cores)

    @property
    def spills(self) -> bool:
        """Whether the active set is kept on disk, too."""
        return spills(self.spec) and self.cache.row_bytes < self.manifest.decoded_bytes

    @property
    def width(self) -> int:
        """Length of w: the features as numbered in the input, and the constant one if there is a bias."""
        return self.manifest.width + (self.spec.bias is not None)

    @property
    def run_bytes(self) -> int:
        """Size of cache and state files."""
        return self.spec.cache_bytes + state_bytes(self.n_rows, self.width)

    def _kept_rows(self, dataset: Path) -> dict[str, Any]:
        """What tells the rows of this job from those of others, as they are trained on."""
        own = {"uid": self.manifest.uid, "positive": self.lane.positive, "bias": self.spec.bias}
        left_out = {"left_out": self._left_out} if self._left_out else {}
        return {"dataset": str(dataset), **own, **left_out}

    @property
    def _left_out(self) -> dict[str, int] | None:
        """The fold whose rows have no part in the lane's training."""
        if self.lane.fold is None:
            return None
        return {"fold": self.lane.fold, "of": n_folds_of(self.spec), "seed": self.spec.seed}

    def run_file(self, dataset: Path) -> dict[str, Any]:
        """Contents of `run.json` for the dataset in this directory."""
        return run_file(
            self.lane_spec,
            self.cache,
            self.cores,
            n_rows=self.n_rows,
            width=self.width,
            C=(self.lane.C_positive, self.lane.C_negative),
            lane={"number": self.number, "of": len(self.lanes), **self.lane.view},
            reader={
                "dataset": str(dataset),
                "staged": None,
                "positive": self.lane.positive,
                "left_out": self._left_out,
                "blocks": self._partition,
                "kept_bytes": kept_bytes(self.spec, self.cache, self.manifest.longest_row),
                "keeps_all": self.spills or self.cache.row_bytes >= self.manifest.decoded_bytes,
            },
            trainer={
                "passes_before": self.passes_before,
                "largest_weight": self.manifest.weights.largest if self.manifest.weights else 1.0,
                "cache_rows": self.cache.row_bytes / self.manifest.decoded_bytes * self.n_rows,
                "follows": False,
                "spill_directory": str(dataset.parent) if self.spills else None,
                "kept_rows": self._kept_rows(dataset) if self.spills else None,
            },
        )


def spills(spec: JobSpec) -> bool:
    """Whether the active set is to be kept on the disk of the data: pace "fixed" leaves no time to visit it there."""
    return getattr(spec.options, "spill", False) and spec.pace == "adaptive"


# Solvers that train with the weights of rows.
TRAINS_WEIGHTS = ("streamsvm", "dcd", "avsf", "bm", "sbm")

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
    reader: dict[str, Any],
    trainer: dict[str, Any],
) -> dict[str, Any]:
    """Contents of `run.json`: which lane is run, what a job tells both processes, and what only one of them is told."""
    shared = {
        "cache": asdict(cache),
        "n_rows": n_rows,
        "width": width,
        "C_positive": C[0],
        "C_negative": C[1],
        **spec.model_dump(include=_BOTH),
    }
    solver = SOLVERS[spec.solver]
    options = asdict(spec.options)
    own = {
        "bias": spec.bias,
        # Beyond the cores, threads would only hold more of what is read ahead.
        "threads": min(spec.threads or cores, cores),
        **{name: options[name] for name, known in options_of(solver.options).items() if known.for_reader},
        "exact": spec.pace == "fixed",
        "evicts": solver.evicts,
        "is_dual": solver.is_dual,
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
            "options": options,
            "threads": threads_of(spec, cores),
        },
    }


def plan_job(spec: JobSpec, manifest: Manifest, cores: int | None = None) -> JobPlan:
    """The job with the size of its cache settled; cores: as many as there are to use.

    Raises ServiceError: weights_not_supported, folds_solver, folds_weights, warm_start, single_class, too_many_classes,
    lanes_range, select_by_range, unknown_label, label_too_large, label_not_numeric, cache_too_small, memory_too_small,
    n_blocks_range, data_too_large.
    """
    _check_weights(spec, manifest)
    cores = cores or usable_cores()
    cache = plan_memory(spec, manifest, threads_of(spec, cores))
    spec = spec.model_copy(update={"cache_bytes": cache.cache_bytes})
    if uses_blocks(spec):
        count_blocks(spec, manifest, cache)
    if spec.loss in REGRESSION:
        _check_targets(spec, manifest)
    labels = labels_of(spec, manifest)
    return JobPlan(spec, manifest, labels, lanes_of(spec, labels, manifest), cache, cores)


def _check_weights(spec: JobSpec, manifest: Manifest) -> None:
    if manifest.weights is not None and (spec.solver not in TRAINS_WEIGHTS or spec.loss in REGRESSION):
        raise ServiceError(
            "weights_not_supported",
            f"rows of the dataset have weights, which {spec.solver} would ignore with {spec.loss} loss",
            f"Solvers that know weights, of classification, are {', '.join(TRAINS_WEIGHTS)}.",
        )
    if n_folds_of(spec) and spec.solver not in TRAINS_WEIGHTS:
        # Rows of a fold are left out by a weight of 0.
        known = ", ".join(TRAINS_WEIGHTS)
        raise ServiceError("folds_solver", f"{spec.solver} cannot leave rows out", f"Solvers that can are {known}.")
    if manifest.weights is not None and manifest.weights.zeros and n_folds_of(spec):
        raise ServiceError("folds_weights", "rows of weight 0 belong to no fold", "Leave them out of the file.")
    if manifest.weights is not None and spec.warm_start is not None:
        raise ServiceError("warm_start", "there is no warm start on rows that have weights", "Leave warm_start out.")


def _check_targets(spec: JobSpec, manifest: Manifest) -> None:
    """What regression asks of labels: numbers that the cache can hold, and no classes."""
    if spec.class_weight:
        raise ServiceError("unknown_label", "regression has no classes to weigh", "Leave class_weight out.")
    if manifest.label_names:
        raise ServiceError(
            "label_not_numeric", f"labels are strings, {spec.loss} loss needs numbers", "Choose a loss of two classes."
        )
    largest = max(map(abs, manifest.label_range))
    if largest > np.finfo(TARGET).max:
        raise ServiceError("label_too_large", f"a label of {largest:g} is beyond float32", "Scale the labels.")
