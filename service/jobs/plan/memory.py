"""Computes, before a job runs, how much memory it will hold and into how many blocks its rows are divided."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NamedTuple

from streamsvm.reader.certificate.kept_values import HELD_OUT
from streamsvm.reader.ingest.shuffle import PIECE_WORDS
from streamsvm.service.errors import ServiceError, refusing
from streamsvm.service.jobs.fields.features import extra_values, planned_maps
from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.lanes import has_lanes
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.cache_plan import LARGEST_SEGMENT, CachePlan, least_segment, plan_cache
from streamsvm.storage.rows.csr import WEIGHT
from streamsvm.storage.rows.segment import CODE, OPTIONAL_COLUMN, PLAIN_ROW, packed_bytes
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT, bytes_alone
from streamsvm.storage.run.state import FEATURE_BYTES, WIDTHS, width_for
from streamsvm.trainer.newton.memory import ProblemShape, bytes_held, equations_within
from streamsvm.trainer.newton.system import LARGEST
from streamsvm.trainer.problem.tasks import joint_width
from streamsvm.trainer.rows.mixture import SEGMENTS
from streamsvm.trainer.solvers import SOLVERS


def spills(spec: JobSpec) -> bool:
    """Return whether sweeps may read rows from a file on the data's disk; at pace "fixed" they lack the time."""
    return getattr(spec.options, "spill", False) and spec.pace == "adaptive"


def rows_bytes(spec: JobSpec, manifest: Manifest) -> int:
    """Return the bytes that all rows take in the job's cache, or in its file of rows on disk."""
    per_row = PLAIN_ROW + OPTIONAL_COLUMN * _optional_columns(spec, manifest)
    return packed_bytes(manifest.n_rows, manifest.nnz + extra_values(spec) * manifest.n_rows, per_row)


def longest_trained_row(spec: JobSpec, manifest: Manifest) -> int:
    """Return the number of values of the longest row after the maps, plus 1 if rows have optional columns."""
    return manifest.longest_row + extra_values(spec) + bool(_optional_columns(spec, manifest))


def _optional_columns(spec: JobSpec, manifest: Manifest) -> int:
    """Return the number of columns that segments have beyond the plain ones: labels to predict, and weights of rows."""
    return spec.loss_kind.is_regression + (manifest.weights is not None)


def holds_all(spec: JobSpec, manifest: Manifest, cache: CachePlan) -> bool:
    """Return whether the cache has room for all rows, however values are distributed among them."""
    return rows_bytes(spec, manifest) <= cache.sure_bytes(longest_trained_row(spec, manifest))


def count_blocks(spec: JobSpec, manifest: Manifest, cache: CachePlan) -> int | None:
    """Return the number of blocks, each of which fits into the cache: as many as the job asks for, else the fewest.

    None: the solver takes its rows as they are stored.

    Raises ServiceError: n_blocks_range, data_too_large.
    """
    if SOLVERS[spec.solver].feed != "blocks":
        return None
    asked = getattr(spec.options, "n_blocks", None)
    longest = longest_trained_row(spec, manifest)
    size = rows_bytes(spec, manifest)
    room = cache.sure_bytes(longest)
    if size <= room and asked is None:
        return 1
    room_for_block = room - _share(spec, room)
    # A block may be larger than its share by one row, which crosses its border.
    fewest = 1 if size <= room else -(-size // max(1, room_for_block - packed_bytes(1, longest)))
    if fewest > 1 and not SOLVERS[spec.solver].has_blocks:
        raise ServiceError(
            "data_too_large",
            f"{spec.solver} holds all rows at once: they take {size} bytes, and a cache of {spec.cache_bytes} bytes "
            f"has room for {room} bytes of rows of up to {longest} non-zeros",
            "Ask for a larger cache, or for a solver that reads in what does not fit: streamsvm.",
        )
    count = asked or fewest
    if not fewest <= count <= manifest.n_rows:
        raise ServiceError(
            "n_blocks_range",
            f"n_blocks is {count}: {manifest.n_rows} rows of {size} bytes in all, and a cache of {spec.cache_bytes} "
            f"bytes with room for {room_for_block} of them, ask for {fewest} or more",
            "Ask for more blocks, at most one for each row, or for a larger cache.",
        )
    return count


def kept_bytes(spec: JobSpec, cache: CachePlan, longest_row: int) -> int:
    """Return the bytes of the cache for rows that stay from earlier blocks; 0 if no rows stay."""
    share = _share(spec, cache.sure_bytes(longest_row + extra_values(spec)))
    # The rows that stay end in a segment that is not full, and so do the rows that come.
    return max(0, share - 2 * cache.row_bytes // cache.most_live)


def _share(spec: JobSpec, room: int) -> int:
    return int(getattr(spec.options, "cache_share", 0.0) * room)


_PART_FOR_SYSTEMS = 2  # systems get 1 / this of the free bytes: few jobs reach the largest possible system


class NewtonRoom(NamedTuple):
    """The most equations that a Newton system may have, and the most bytes that Newton steps then hold."""

    equations: int
    n_bytes: int


ANY_ROOM, NO_ROOM = NewtonRoom(LARGEST, 0), NewtonRoom(0, 0)


# Code -> why a job takes no Newton steps: first the codes that its fields give, by _RULES, then those of its plan.
RULED_OUT = {
    "solver": "only the solver streamsvm takes Newton steps",
    "pace": 'a job of pace "fixed" makes exactly the updates that are due',
    "multiclass": "the classes of a row depend on each other where all are one problem",
    "machines": "each of several machines trains alone if their results are averaged",
    "no_target": "without tolerance and relative_gap there is no end to be near to",
    "rows_not_at_hand": "neither the cache nor the disk holds all rows: each scan would read and decode all blocks",
    "no_room": "memory_bytes, or the machine, has no room for what they hold",
}
_RULES: dict[str, Callable[[JobSpec], bool]] = {
    "solver": lambda spec: spec.solver != "streamsvm",
    "pace": lambda spec: spec.pace != "adaptive",
    "multiclass": lambda spec: spec.is_joint,
    "machines": lambda spec: spec.machines is not None and spec.combine == "average",
    "no_target": lambda spec: spec.tolerance is None and spec.relative_gap is None,
}


def ruled_out_by(spec: JobSpec) -> str | None:
    """Return the first code of RULED_OUT that the job's fields give; None: the fields allow Newton steps.

    Training takes the steps where they are quicker.
    See trainer.newton.phase and, on several machines, service.cluster.rounds.newton.
    """
    return next((code for code, is_broken in _RULES.items() if is_broken(spec)), None)


def newton_room(spec: JobSpec, manifest: Manifest, threads: int, lanes: int, room: int) -> NewtonRoom:
    """Return the equations and bytes that Newton steps may have within `room` bytes, for `lanes` lanes side by side."""
    if ruled_out_by(spec):
        return NO_ROOM
    maps = planned_maps(spec, manifest)
    mean = manifest.nnz / max(1, manifest.n_rows) + extra_values(spec)
    values, columns = maps.width if len(maps.late) else mean, _optional_columns(spec, manifest)
    shape = ProblemShape(manifest.n_rows, maps.width, lanes, columns, values, threads)
    least = bytes_held(shape, 1)
    most = equations_within(least + (room - least) // _PART_FOR_SYSTEMS, shape) if room > least else 0
    return NewtonRoom(most, bytes_held(shape, min(most, shape.most_equations))) if most else NO_ROOM


# Measured, rounded up: two interpreters with compiled kernels, and pieces and segments on their way.
_PROCESSES_BYTES = 320 << 20
_BUFFERS_BYTES = 48 << 20
# Bytes of a row: score, visited, skipped, the reader's is_resident and leaving; alpha for each lane or joint class.
_ROW_BYTES, _ROW_LANE_BYTES = 8, 8
_HELD_OUT_BYTES = HELD_OUT.itemsize  # of a row, for each lane with a fold
# Bytes of a feature for each of several lanes (FEATURE_BYTES for one lane alone): w, and the published w, which is also
# the one certified and the one before a sweep.
_FEATURE_LANE_BYTES = 24
# Arrays of shape (rows of a piece, classes), as measured: while a piece is certified, and for each thread that screens
# pieces ahead.
_CERTIFIED_ARRAYS, _SCREENED_ARRAYS = 12, 9
# Where rows are long: number of rows decoded and packed for the disk; of windows on the disk beyond one a thread; most
# bytes mixed in a window; number of segments of the cache that the reader puts together.
_PACKED_ROWS, _WINDOWS_AHEAD, _MOST_MIXED_BYTES, _PACKED_SEGMENTS = 10, 3, 16 * SPILL_SEGMENT, 5
# Bytes that a group of lanes may hold for rows, features and solver, if a job does not set memory_bytes.
_GROUP_BYTES = 2 << 30
# Lanes side by side at most. More of them share decoding and the start of processes, which counts in the short runs of
# a search for C; where sweeps take the time, they would only need more memory.
_MOST_AT_ONCE, _MOST_IN_SEARCH = 16, 264
_LEAST_SHARE = 0.05  # part of memory_bytes that the cache gets at least


@dataclass(frozen=True)
class JobMemory:
    """Bytes that a job holds in reader, trainer and memory files together.

    processes, buffers  interpreters with compiled code; pieces and segments on their way
    rows, features      arrays with a number, or one for each lane, for each row and for each feature
    newton_bytes        bytes of Newton steps beyond those that sweeps free before Newton steps begin
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

    @property
    def without_cache(self) -> int:
        return self.total_bytes - self.cache_bytes

    def arithmetic(self) -> str:
        """Return the bytes of each part but the cache, as text for error messages."""
        return (
            f"processes {format_size(self.processes_bytes)}, buffers {format_size(self.buffers_bytes)}, "
            f"rows {format_size(self.rows_bytes)}, features {format_size(self.features_bytes)}, "
            f"solver {format_size(self.solver_bytes)}, Newton steps {format_size(self.newton_bytes)}"
        )


def threads_of(spec: JobSpec, cores: int) -> int:
    """Return the number of trainer threads: at pace "fixed" one, except for some kernel machines.

    Runs of pace "fixed" repeat to the byte. Kernel machines without memory_bytes do so with any number of threads.
    """
    if spec.pace == "adaptive":
        return spec.threads or cores
    # With memory_bytes, the size of the cache depends on the number of threads, and the cache decides the result.
    is_same = SOLVERS[spec.solver].has_kernel and spec.memory_bytes is None
    return spec.threads or 1 if is_same else 1


def memory_of(
    spec: JobSpec, manifest: Manifest, threads: int, lanes: int = 1, newton: NewtonRoom = NO_ROOM
) -> JobMemory:
    """Return the memory of a job with its `cache_bytes`, `threads` trainer threads and `lanes` lanes side by side."""
    maps = planned_maps(spec, manifest)
    width, has_folds = maps.width, bool(spec.n_folds)
    columns = len(manifest.labels) if spec.is_joint else lanes
    axis = joint_width(columns) if spec.is_joint else width_for(lanes)
    row_bytes = _ROW_BYTES + axis * _ROW_LANE_BYTES
    if has_folds:
        row_bytes += (
            CODE.itemsize + columns * _HELD_OUT_BYTES + (WEIGHT.itemsize if manifest.weights is not None else 0)
        )
    features = (axis * _FEATURE_LANE_BYTES if axis > 1 else FEATURE_BYTES) * width
    features += 2 * maps.own_bytes  # in both processes
    own = SOLVERS[spec.solver].own_bytes(manifest.n_rows, width, threads, spec.options)
    own += _lane_bytes(manifest, axis, lanes)
    buffers = _BUFFERS_BYTES + _long_row_buffers(manifest.longest_row + extra_values(spec), threads)
    buffers += _class_buffers(manifest, axis, threads) if spec.is_joint else 0
    more = max(0, newton.n_bytes - _freed_bytes(manifest, axis, lanes))
    return JobMemory(_PROCESSES_BYTES, buffers, row_bytes * manifest.n_rows, features, own, more, spec.cache_bytes)


def _lane_bytes(manifest: Manifest, axis: int, lanes: int) -> int:
    """Return the bytes that sweeps of several lanes hold beyond those that sweeps of one lane hold."""
    each = axis * _ROW_LANE_BYTES * manifest.n_rows
    before = each - _ROW_LANE_BYTES * manifest.n_rows  # alpha before a sweep
    return before + each if lanes > 1 else before  # lanes that are left, while they are being packed


def _freed_bytes(manifest: Manifest, axis: int, lanes: int) -> int:
    """Return the bytes that sweeps free when they end."""
    return _ROW_LANE_BYTES * manifest.n_rows + _lane_bytes(manifest, axis, lanes)


def _long_row_buffers(longest_row: int, threads: int) -> int:
    """Return the bytes that buffers hold in addition where a row is longer than the segments of most datasets."""
    alone = max(0, bytes_alone(longest_row) - SPILL_SEGMENT)
    window = alone + min((SEGMENTS - 1) * alone, _MOST_MIXED_BYTES)
    segment = max(0, least_segment(longest_row) - LARGEST_SEGMENT)
    on_disk = _PACKED_ROWS * alone + (threads + _WINDOWS_AHEAD) * window
    return on_disk + (_PACKED_SEGMENTS + SEGMENTS * (threads + 1)) * segment


def _class_buffers(manifest: Manifest, axis: int, threads: int) -> int:
    """Return the bytes of the reader's arrays with a row for each row of a piece and a column for each class."""
    words = 3 + 2 * manifest.nnz / max(1, manifest.n_rows)  # mean words that a row takes in a piece
    rows = min(manifest.n_rows, int(PIECE_WORDS / words))
    return rows * axis * _ROW_LANE_BYTES * (_CERTIFIED_ARRAYS + threads * _SCREENED_ARRAYS)


def plan_memory(
    spec: JobSpec, manifest: Manifest, threads: int, there_are: int, lanes: int = 1
) -> tuple[int, CachePlan, NewtonRoom]:
    """Return how many of a job's lanes are trained side by side, the plan of its cache, and the room for Newton steps.

    As many lanes are trained side by side as have room beside the cache. The cache has `cache_bytes`, or what
    `memory_bytes` leave. Newton steps get room next, if the cache beside them, or the disk, holds all rows. The
    solver's and the features' data have to fit into `there_are` bytes. Raises ServiceError: cache_too_small,
    memory_too_small, max_cuts_range, budget_range.
    """
    _check_fits(spec, manifest, memory_of(spec, manifest, threads), there_are)
    at_once = _lanes_at_once(spec, manifest, threads, lanes)
    memory = memory_of(spec, manifest, threads, at_once)
    # Bytes that no part of the job takes; sweeps add those that they free before Newton steps begin.
    left = there_are - memory.total_bytes
    if spec.memory_bytes is not None:
        left = int((1.0 - _LEAST_SHARE) * spec.memory_bytes) - memory.without_cache
    left += _freed_bytes(manifest, width_for(at_once), at_once)
    newton = newton_room(spec, manifest, threads, at_once, left)
    if newton.equations:
        with suppress(ServiceError):
            cache = _plan_cache(spec, manifest, threads, at_once, newton)
            if spills(spec) or holds_all(spec, manifest, cache):
                return at_once, cache, newton
    return at_once, _plan_cache(spec, manifest, threads, at_once), NO_ROOM


def most_at_once(spec: JobSpec) -> int:
    """Return the number of lanes that a job trains side by side at most, if memory has room."""
    if not has_lanes(spec):
        return 1
    return _MOST_IN_SEARCH if spec.searches_C else _MOST_AT_ONCE


def _lanes_at_once(spec: JobSpec, manifest: Manifest, threads: int, lanes: int) -> int:
    most = most_at_once(spec)
    if most > 1:
        for width in reversed(WIDTHS[1:]):
            at_once = min(width, lanes, most)
            if width_for(at_once) == width and _has_room(spec, manifest, threads, at_once):
                return at_once
    return 1


def _has_room(spec: JobSpec, manifest: Manifest, threads: int, lanes: int) -> bool:
    memory = memory_of(spec, manifest, threads, lanes)
    if spec.memory_bytes is None:
        return memory.rows_bytes + memory.features_bytes + memory.solver_bytes <= _GROUP_BYTES
    # Lanes are trained together only if they leave this share of memory to the cache: rows have to stay for a while.
    room = spec.memory_bytes - memory.without_cache
    try:
        return room >= _LEAST_SHARE * spec.memory_bytes and bool(_plan_cache(spec, manifest, threads, lanes))
    except ServiceError:
        return False


def _plan_cache(spec: JobSpec, manifest: Manifest, threads: int, lanes: int, newton: NewtonRoom = NO_ROOM) -> CachePlan:
    memory = memory_of(spec, manifest, threads, lanes, newton)
    longest_row = longest_trained_row(spec, manifest)
    if spec.memory_bytes is None:
        return cache_of(spec.cache_bytes, longest_row)
    left = spec.memory_bytes - memory.without_cache
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
    """Plan a cache for rows of at most `longest_row` non-zeros. Raises ServiceError cache_too_small."""
    with refusing(CacheTooSmall):
        return plan_cache(cache_bytes, longest_row)


def _check_fits(spec: JobSpec, manifest: Manifest, memory: JobMemory, there_are: int) -> None:
    """Raise ServiceError if data of solver and features would outgrow memory: the job would be killed as it runs."""
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
