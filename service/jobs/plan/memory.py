"""How much memory a job holds, before it runs: the arithmetic behind `memory_bytes` and estimates."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

from streamsvm.reader.certificate.folds import HELD_OUT
from streamsvm.reader.ingest.shuffling.shuffle import PIECE_WORDS
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import extra_values, planned_maps
from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.blocks import longest_trained_row
from streamsvm.service.jobs.plan.lanes import n_folds_of
from streamsvm.service.jobs.plan.newton import NO_ROOM, NewtonRoom, newton_room
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.axis import WIDTHS, width_for
from streamsvm.storage.rows.cache_plan import LARGEST_SEGMENT, CachePlan, least_segment, plan_cache
from streamsvm.storage.rows.csr import WEIGHT
from streamsvm.storage.rows.packing import bytes_alone
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.storage.run.state import FEATURE_BYTES
from streamsvm.trainer.problem.tasks import joint_width
from streamsvm.trainer.rows.mixture import SEGMENTS
from streamsvm.trainer.solvers import SOLVERS

# Measured, rounded up: two interpreters with compiled kernels, and pieces and segments on their way.
_PROCESSES_BYTES = 320 << 20
_BUFFERS_BYTES = 48 << 20
# score, visited, skipped; is_resident and leaving of the reader. Of each lane, or class of one problem: alpha.
_ROW_BYTES, _ROW_LANE_BYTES = 8, 8
_HELD_OUT_BYTES = HELD_OUT.itemsize  # of a row, for each lane with a fold
# Bytes of a feature for each of several lanes (FEATURE_BYTES for one lane alone): w, and the published w, which is also
# the one certified and the one before a sweep.
_FEATURE_LANE_BYTES = 24
# Arrays of shape (rows of a piece, classes), as measured: while a piece is certified, and for each thread that screens
# pieces ahead.
_CERTIFIED_ARRAYS, _SCREENED_ARRAYS = 10, 7
# Where rows are long: those that are being decoded, and packed for the disk; windows on the disk beyond one a thread,
# and what is mixed in one; segments of the cache that the reader puts together.
_PACKED_ROWS, _WINDOWS_AHEAD, _MOST_MIXED_BYTES, _PACKED_SEGMENTS = 10, 3, 16 * SPILL_SEGMENT, 5
# Bytes that a group of lanes may hold for rows, features and solver, if a job does not set memory_bytes.
_GROUP_BYTES = 2 << 30
_LEAST_SHARE = 0.05  # of the memory, for the cache of a group


@dataclass(frozen=True)
class Memory:
    """Bytes that a job holds in reader, trainer and memory files together.

    newton_bytes  what Newton steps hold more than sweeps do, which have ended by then
    """

    processes_bytes: int
    buffers_bytes: int
    rows_bytes: int
    features_bytes: int
    solver_bytes: int
    newton_bytes: int
    cache_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(asdict(self).values())

    def arithmetic(self) -> str:
        """The terms without the cache, as a text for error messages."""
        return (
            f"processes {format_size(self.processes_bytes)}, buffers {format_size(self.buffers_bytes)}, "
            f"rows {format_size(self.rows_bytes)}, features {format_size(self.features_bytes)}, "
            f"solver {format_size(self.solver_bytes)}, Newton steps {format_size(self.newton_bytes)}"
        )


def threads_of(spec: JobSpec, cores: int) -> int:
    """The trainer's threads. A run of pace "fixed" is a function of data, settings and seed, to the byte.

    There threads share no work, but where a kernel machine comes out the same with any number of them.
    """
    if spec.pace == "adaptive":
        return spec.threads or cores
    # The rest of memory_bytes, which is for the cache, depends on threads.
    is_same = SOLVERS[spec.solver].has_kernel and spec.memory_bytes is None
    return spec.threads or 1 if is_same else 1


def memory_of(spec: JobSpec, manifest: Manifest, threads: int, lanes: int = 1, newton: NewtonRoom = NO_ROOM) -> Memory:
    """The memory of a job with a cache of `cache_bytes`, for so many trainer threads and lanes side by side."""
    maps = planned_maps(spec, manifest)
    width, has_folds = maps.width, bool(n_folds_of(spec))
    columns = len(manifest.labels) if spec.is_joint else lanes
    axis = joint_width(columns) if spec.is_joint else width_for(lanes)
    row_bytes = _ROW_BYTES + axis * _ROW_LANE_BYTES
    if has_folds:
        row_bytes += columns * _HELD_OUT_BYTES + (WEIGHT.itemsize if manifest.weights is not None else 0)
    features = (axis * _FEATURE_LANE_BYTES if axis > 1 else FEATURE_BYTES) * width
    features += 2 * maps.own_bytes  # in both processes
    own = SOLVERS[spec.solver].own_bytes(manifest.n_rows, width, threads, spec.options)
    own += _lane_bytes(manifest, axis, lanes)
    buffers = _BUFFERS_BYTES + _long_row_buffers(manifest.longest_row + extra_values(spec), threads)
    buffers += _class_buffers(manifest, axis, threads) if spec.is_joint else 0
    more = max(0, newton.n_bytes - _freed_bytes(manifest, axis, lanes))
    return Memory(_PROCESSES_BYTES, buffers, row_bytes * manifest.n_rows, features, own, more, spec.cache_bytes)


def _lane_bytes(manifest: Manifest, axis: int, lanes: int) -> int:
    """Bytes that sweeps of several lanes hold beyond those of one."""
    each = axis * _ROW_LANE_BYTES * manifest.n_rows
    before = each - _ROW_LANE_BYTES * manifest.n_rows  # alpha before a sweep
    return before + each if lanes > 1 else before  # lanes that are left, while they are being packed


def _freed_bytes(manifest: Manifest, axis: int, lanes: int) -> int:
    """Bytes that sweeps hold no more when they have ended."""
    return _ROW_LANE_BYTES * manifest.n_rows + _lane_bytes(manifest, axis, lanes)


def _long_row_buffers(longest_row: int, threads: int) -> int:
    """Bytes that buffers hold more where a row is longer than the segments of most datasets."""
    alone = max(0, bytes_alone(longest_row) - SPILL_SEGMENT)
    window = alone + min((SEGMENTS - 1) * alone, _MOST_MIXED_BYTES)
    segment = max(0, least_segment(longest_row) - LARGEST_SEGMENT)
    on_disk = _PACKED_ROWS * alone + (threads + _WINDOWS_AHEAD) * window
    return on_disk + (_PACKED_SEGMENTS + SEGMENTS * (threads + 1)) * segment


def _class_buffers(manifest: Manifest, axis: int, threads: int) -> int:
    """Bytes of the arrays that the reader makes, for each class, from the rows of a piece."""
    words = 3 + 2 * manifest.nnz / max(1, manifest.n_rows)  # mean words that a row takes in a piece
    rows = min(manifest.n_rows, int(PIECE_WORDS / words))
    return rows * axis * _ROW_LANE_BYTES * (_CERTIFIED_ARRAYS + threads * _SCREENED_ARRAYS)


class MemoryPlan(NamedTuple):
    """How many of a job's lanes are trained side by side, its cache, and what there is for Newton steps."""

    at_once: int
    cache: CachePlan
    newton: NewtonRoom


def plan_memory(spec: JobSpec, manifest: Manifest, threads: int, there_are: int, lanes: int = 1) -> MemoryPlan:
    """Divide the memory of a job with so many lanes.

    As many are trained side by side as there is room for beside a cache: of `cache_bytes`, or of what `memory_bytes`
    leave. Newton steps come next. What no cache can make smaller has to fit into the bytes that there are.
    Raises ServiceError: cache_too_small, memory_too_small, max_cuts_range, budget_range.
    """
    _check_fits(spec, manifest, memory_of(spec, manifest, threads), there_are)
    at_once = _lanes_at_once(spec, manifest, threads, lanes)
    newton = newton_room(
        spec, manifest, threads, at_once, _left_for_newton(spec, manifest, threads, at_once, there_are)
    )
    try:
        return MemoryPlan(at_once, _plan_cache(spec, manifest, threads, at_once, newton), newton)
    except ServiceError:
        if not newton.equations:
            raise
    return MemoryPlan(at_once, _plan_cache(spec, manifest, threads, at_once), NO_ROOM)


def _lanes_at_once(spec: JobSpec, manifest: Manifest, threads: int, lanes: int) -> int:
    if SOLVERS[spec.solver].has_lanes and not spec.is_joint:
        for width in reversed(WIDTHS[1:]):
            at_once = min(width, lanes)
            if width_for(at_once) == width and _has_room(spec, manifest, threads, at_once):
                return at_once
    return 1


def _left_for_newton(spec: JobSpec, manifest: Manifest, threads: int, lanes: int, there_are: int) -> int:
    """Bytes that are nobody's, and those that sweeps will have freed."""
    memory = memory_of(spec, manifest, threads, lanes)
    freed = _freed_bytes(manifest, width_for(lanes), lanes)
    if spec.memory_bytes is None:
        return there_are - memory.total_bytes + freed
    return int((1.0 - _LEAST_SHARE) * spec.memory_bytes) - (memory.total_bytes - memory.cache_bytes) + freed


def _has_room(spec: JobSpec, manifest: Manifest, threads: int, lanes: int) -> bool:
    memory = memory_of(spec, manifest, threads, lanes)
    if spec.memory_bytes is None:
        return memory.rows_bytes + memory.features_bytes + memory.solver_bytes <= _GROUP_BYTES
    # Lanes are trained together only if they leave this share of memory to the cache: rows have to stay for a while.
    room = spec.memory_bytes - (memory.total_bytes - memory.cache_bytes)
    try:
        return room >= _LEAST_SHARE * spec.memory_bytes and bool(_plan_cache(spec, manifest, threads, lanes))
    except ServiceError:
        return False


def _plan_cache(spec: JobSpec, manifest: Manifest, threads: int, lanes: int, newton: NewtonRoom = NO_ROOM) -> CachePlan:
    memory = memory_of(spec, manifest, threads, lanes, newton)
    longest_row = longest_trained_row(spec, manifest)
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


def _check_fits(spec: JobSpec, manifest: Manifest, memory: Memory, there_are: int) -> None:
    """Refuse a solver whose own data would outgrow the memory while it runs: it would be killed then."""
    own = memory.solver_bytes
    if own > there_are and SOLVERS[spec.solver].has_kernel:
        raise ServiceError(
            "budget_range",
            f"{spec.solver} holds up to {format_size(own)}: budget {spec.options.budget} vectors of {manifest.width} "
            f"features; {format_size(there_are)} are here",
            "Ask for a smaller budget, or for memory_bytes that say what there is.",
        )
    if own > there_are and hasattr(spec.options, "max_cuts"):
        raise ServiceError(
            "max_cuts_range",
            f"{spec.solver} holds up to {format_size(own)}: max_cuts {spec.options.max_cuts} cutting planes of "
            f"{planned_maps(spec, manifest).width} features, and {manifest.n_rows} rows; "
            f"{format_size(there_are)} are here",
            "Ask for fewer max_cuts.",
        )
    if own + memory.features_bytes > there_are:
        raise ServiceError(
            "memory_too_small",
            f"the job holds {format_size(own + memory.features_bytes)} for its features and classes, and "
            f"{format_size(there_are)} are here",
            "Train where there is more memory, fewer classes in one problem, or rows of fewer features.",
        )
