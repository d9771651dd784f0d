"""From a job and a dataset to what reader and trainer are told. Everything that can be refused is refused here."""

import os
from dataclasses import dataclass
from typing import Any

from service.errors import ServiceError
from service.jobs import JobSpec
from storage.dataset import Manifest
from storage.errors import CacheTooSmall
from storage.plan import CachePlan, plan_cache
from storage.state import state_bytes


@dataclass(frozen=True)
class JobPlan:
    """A job that can run on a dataset."""

    spec: JobSpec
    manifest: Manifest
    positive: float
    negative: float
    C_positive: float
    C_negative: float
    cache: CachePlan

    @property
    def width(self) -> int:
        """Length of w: the features as numbered in the input, and the constant one if there is a bias."""
        return self.manifest.width + (self.spec.bias is not None)

    @property
    def run_bytes(self) -> int:
        """Size of cache and state files."""
        return self.spec.cache_bytes + state_bytes(self.manifest.n_rows, self.width)

    def run_file(self, dataset: str) -> dict[str, Any]:
        """Contents of `run.json` for the dataset in directory `dataset`."""
        spec = self.spec
        shared = {
            "loss": spec.loss,
            "C_positive": self.C_positive,
            "C_negative": self.C_negative,
            "eviction": spec.eviction,
            "seed": spec.seed,
        }
        reader = {
            **shared,
            "dataset": dataset,
            "staged": None,
            "n_rows": self.manifest.n_rows,
            "width": self.width,
            "longest_row": self.manifest.longest_row + (self.spec.bias is not None),
            "positive": self.positive,
            "bias": spec.bias,
            "cache_bytes": spec.cache_bytes,
            # The paper's rule looks at every row itself.
            "screening": spec.screening if spec.eviction == "score" else None,
        }
        trainer = {
            **shared,
            "n_rows": self.manifest.n_rows,
            "width": self.width,
            "cache_bytes": spec.cache_bytes,
            "cache_rows": self.cache.row_bytes / self.manifest.decoded_bytes * self.manifest.n_rows,
            **spec.model_dump(
                include={
                    "solver", "tolerance", "relative_gap", "max_passes", "max_seconds", "updates_per_row", "pace",
                    "selection", "threads",
                }
            ),
        }  # fmt: skip
        return {"reader": reader, "trainer": trainer}


def plan_job(spec: JobSpec, manifest: Manifest) -> JobPlan:
    """Raises ServiceError: threads_range, single_class, too_many_classes, unknown_label, cache_too_small."""
    cores = len(os.sched_getaffinity(0))
    if spec.threads > cores:
        raise ServiceError("threads_range", f"threads is {spec.threads}, there are {cores} cores")
    values = sorted(manifest.labels)
    if len(values) == 1:
        raise ServiceError("single_class", f"all rows have the label {values[0]:g}", "Training needs two classes.")
    if len(values) > 2:
        raise ServiceError(
            "too_many_classes",
            f"the dataset has {len(values)} classes, {spec.solver} separates two",
            "Upload the data with one class against the rest.",
        )
    negative, positive = values
    weights = _class_weights(spec, values)
    try:
        cache = plan_cache(spec.cache_bytes, manifest.longest_row + (spec.bias is not None))
    except CacheTooSmall as error:
        raise ServiceError(error.code, error.message, error.hint) from None
    return JobPlan(spec, manifest, positive, negative, spec.C * weights[positive], spec.C * weights[negative], cache)


def _class_weights(spec: JobSpec, values: list[float]) -> dict[float, float]:
    weights = dict.fromkeys(values, 1.0)
    for label, weight in (spec.class_weight or {}).items():
        try:
            value = float(label)
        except ValueError:
            value = None
        if value not in weights:
            known = ", ".join(f"{known:g}" for known in values)
            raise ServiceError("unknown_label", "class_weight names a label the data does not have", f"Labels: {known}")
        weights[value] = weight
    return weights
