"""How much memory a job holds, before it runs: the arithmetic behind `memory_bytes` and estimates."""

import os
from dataclasses import asdict, dataclass

from reader.folds import HELD_OUT
from service.errors import ServiceError
from service.jobs import JobSpec
from service.lanes import n_folds_of
from service.sizes import format_size
from storage.errors import CacheTooSmall
from storage.manifest import Manifest
from storage.plan import CachePlan, plan_cache
from trainer.solvers import SOLVERS

# Measured, rounded up: two interpreters with compiled kernels, and pieces and segments on their way.
_PROCESSES_BYTES = 320 << 20
_BUFFERS_BYTES = 48 << 20
# alpha, score, visited, skipped; is_resident and leaving of the reader.
_ROW_BYTES = 16
_HELD_OUT_BYTES = HELD_OUT.itemsize  # of a row, with folds
# w of the trainer, that before a sweep over a cache with all rows, the published one, and two while it is certified.
_FEATURE_BYTES = 40


@dataclass(frozen=True)
class Memory:
    """What a job holds in reader, trainer and memory files together."""

    processes_bytes: int
    buffers_bytes: int
    rows_bytes: int
    features_bytes: int
    solver_bytes: int
    cache_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(asdict(self).values())

    def arithmetic(self) -> str:
        """All but the cache, for people."""
        return (
            f"processes {format_size(self.processes_bytes)}, buffers {format_size(self.buffers_bytes)}, "
            f"rows {format_size(self.rows_bytes)}, features {format_size(self.features_bytes)}, "
            f"solver {format_size(self.solver_bytes)}"
        )


def threads_of(spec: JobSpec, cores: int) -> int:
    """Of the trainer. A run of pace "fixed" is a function of data, settings and seed: not of the machine."""
    return spec.threads or (1 if spec.pace == "fixed" else cores)


def memory_of(spec: JobSpec, manifest: Manifest, threads: int) -> Memory:
    """What a job with a cache of `cache_bytes` and so many threads of the trainer holds."""
    width = manifest.width + (spec.bias is not None)
    row_bytes = _ROW_BYTES + (_HELD_OUT_BYTES if n_folds_of(spec) else 0)
    rows, features = row_bytes * manifest.n_rows, _FEATURE_BYTES * width
    own = SOLVERS[spec.solver].own_bytes(manifest.n_rows, width, threads, spec.options)
    return Memory(_PROCESSES_BYTES, _BUFFERS_BYTES, rows, features, own, spec.cache_bytes)


def plan_memory(spec: JobSpec, manifest: Manifest, threads: int) -> CachePlan:
    """The plan of the cache: of `cache_bytes`, or of what `memory_bytes` leave.

    Raises ServiceError: cache_too_small, memory_too_small, max_cuts_range.
    """
    memory = memory_of(spec, manifest, threads)
    _check_cuts(spec, manifest, memory.solver_bytes)
    longest_row = manifest.longest_row + (spec.bias is not None)
    if spec.memory_bytes is None:
        return cache_of(spec.cache_bytes, longest_row)
    left = spec.memory_bytes - (memory.total_bytes - memory.cache_bytes)
    try:
        return cache_of(max(1, left), longest_row)
    except ServiceError as error:
        raise ServiceError(
            "memory_too_small",
            f"of memory_bytes, {format_size(spec.memory_bytes)}, this leaves {left} bytes for the cache: "
            f"{memory.arithmetic()}",
            error.hint,
        ) from None


def cache_of(cache_bytes: int, longest_row: int) -> CachePlan:
    """The plan for rows of so many non-zeros at most. Raises ServiceError cache_too_small."""
    try:
        return plan_cache(cache_bytes, longest_row)
    except CacheTooSmall as error:
        raise ServiceError(error.code, error.message, error.hint) from None


def _check_cuts(spec: JobSpec, manifest: Manifest, own: int) -> None:
    """What a solver holds for itself grows while it runs: better refused now than killed then."""
    there_are = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if own > there_are:
        raise ServiceError(
            "max_cuts_range",
            f"{spec.solver} holds up to {format_size(own)}: max_cuts {spec.options.max_cuts} cutting planes of "
            f"{manifest.width} features, and {manifest.n_rows} rows; this machine has {format_size(there_are)}",
            "Ask for fewer max_cuts.",
        )
