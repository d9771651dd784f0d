"""From a job and a dataset to what reader and trainer are told. Everything that can be refused is refused here."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from service.blocks import count_blocks, kept_bytes, uses_blocks
from service.errors import ServiceError
from service.jobs import JobSpec
from service.memory import plan_memory, threads_of
from storage.cores import usable_cores
from storage.dataset import Manifest
from storage.objective import REGRESSION
from storage.plan import CachePlan
from storage.segment import TARGET
from storage.state import state_bytes
from trainer.solvers import SOLVERS
from trainer.solvers.options import options_of


@dataclass(frozen=True)
class JobPlan:
    """A job that can run on a dataset. positive, negative: its labels, None in regression. cores: it may use."""

    spec: JobSpec
    manifest: Manifest
    positive: float | None
    negative: float | None
    C_positive: float
    C_negative: float
    cache: CachePlan
    cores: int

    @property
    def labels(self) -> tuple[float, ...]:
        """Those a model is to have."""
        return () if self.positive is None or self.negative is None else (self.positive, self.negative)

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
        own = {"uid": self.manifest.uid, "positive": self.positive, "bias": self.spec.bias}
        return {"dataset": str(dataset), **own}

    def run_file(self, dataset: Path) -> dict[str, Any]:
        """Contents of `run.json` for the dataset in this directory."""
        return run_file(
            self.spec,
            self.cache,
            self.cores,
            n_rows=self.n_rows,
            width=self.width,
            C=(self.C_positive, self.C_negative),
            reader={
                "dataset": str(dataset),
                "staged": None,
                "positive": self.positive,
                "blocks": self._partition,
                "kept_bytes": kept_bytes(self.spec, self.cache, self.manifest.longest_row),
                "keeps_all": self.spills or self.cache.row_bytes >= self.manifest.decoded_bytes,
            },
            trainer={
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
TRAINS_WEIGHTS: frozenset[str] = frozenset()

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
    reader: dict[str, Any],
    trainer: dict[str, Any],
) -> dict[str, Any]:
    """Contents of `run.json`: what a job tells both processes, and what only one of them is told."""
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
        "reader": {**shared, **reader, **own},
        "trainer": {**shared, **trainer, **rest, "options": options, "threads": threads_of(spec, cores)},
    }


def plan_job(spec: JobSpec, manifest: Manifest, cores: int | None = None) -> JobPlan:
    """The job with the size of its cache settled; cores: as many as there are to use.

    Raises ServiceError: weights_not_supported, single_class, too_many_classes, unknown_label, label_too_large,
    label_not_numeric, cache_too_small, memory_too_small, n_blocks_range, data_too_large.
    """
    _check_weights(spec, manifest)
    cores = cores or usable_cores()
    cache = plan_memory(spec, manifest, threads_of(spec, cores))
    spec = spec.model_copy(update={"cache_bytes": cache.cache_bytes})
    if uses_blocks(spec):
        count_blocks(spec, manifest, cache)
    if spec.loss in REGRESSION:
        _check_targets(spec, manifest)
        return JobPlan(spec, manifest, None, None, spec.C, spec.C, cache, cores)
    values = sorted(manifest.labels)
    if len(values) == 1:
        raise ServiceError(
            "single_class", f"all rows have the label {manifest.label_text(values[0])}", "Training needs two classes."
        )
    if len(values) != 2:
        raise ServiceError(
            "too_many_classes",
            f"the dataset has {len(values) or 'too many'} classes, {spec.loss} loss separates two",
            "Upload the data with one class against the rest, or choose a loss of regression.",
        )
    negative, positive = values
    weights = _class_weights(spec, manifest)
    C = spec.C * weights[positive], spec.C * weights[negative]
    return JobPlan(spec, manifest, positive, negative, *C, cache, cores)


def _check_weights(spec: JobSpec, manifest: Manifest) -> None:
    if manifest.weights is not None and spec.solver not in TRAINS_WEIGHTS:
        raise ServiceError(
            "weights_not_supported",
            f"rows of the dataset have weights, which {spec.solver} would ignore",
            "Read the data in without weights.",
        )


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


def _class_weights(spec: JobSpec, manifest: Manifest) -> dict[float, float]:
    weights = dict.fromkeys(sorted(manifest.labels), 1.0)
    for label, weight in (spec.class_weight or {}).items():
        value = manifest.label_of(label)
        if value is None or value not in weights:
            known = ", ".join(map(manifest.label_text, weights))
            raise ServiceError("unknown_label", "class_weight names a label the data does not have", f"Labels: {known}")
        weights[value] = weight
    return weights
