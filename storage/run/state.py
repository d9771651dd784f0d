"""A run's state, memory-mapped and shared by reader, trainer and worker: each field and array has one writer."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.files.arrays import open_array, reserve
from streamsvm.storage.machine.compiling import COMPILE_TIME
from streamsvm.storage.rows.csr import Array

# Numbers of columns of w and alpha. For up to eight tasks, a kernel reads each index, value and cache line of w once.
WIDTHS = (1, 4, *range(8, 265, 8))
_LINE = 8  # float64 numbers in a cache line


def width_for(lanes: int) -> int:
    """Return the smallest of WIDTHS that is at least `lanes`, the number of tasks."""
    return next(width for width in WIDTHS if width >= lanes)


def aligned(array: Array) -> Array:
    """Return a float64 copy of the array that begins on a cache line, see `zeros`."""
    copy = zeros(*array.shape)
    copy[:] = array
    return copy


def zeros(*shape: int) -> Array:
    """Make a float64 array of zeros that begins on a cache line, so that a row of up to 8 columns is in one line."""
    n = int(np.prod(shape))
    room = np.zeros(n + _LINE)
    start = (-room.ctypes.data // room.itemsize) % _LINE
    return room[start : start + n].reshape(shape)


# Other files of a run directory: the settings of both processes, the cache that they share, and, of a shard of the
# rows, sum_i alpha_i y_i x_i at their last certificate, as w is laid out; written by the reader.
RUN_FILE, CACHE_FILE, OWN_W_FILE = "run.json", "cache", "own_w"
FOLDS_FILE = "folds"  # the fold of each row, where rows are dealt to folds class by class

INTEGER, REAL = np.dtype("<i8"), np.dtype("<f8")

# Phases that a solver may report: it trains while rows stream; it sweeps over all rows; it makes Newton steps.
SOLVER_PHASES = ("stream", "sweep", "newton")

# name, type, writer. Each field has eight bytes, so that a read never sees half of a write.
CONTROL = (
    # reader
    ("reader_heartbeat", REAL, "reader"),  # time.monotonic in s; in the future: no heartbeat is expected until then
    ("committed_step", INTEGER, "reader"),  # last step in the cache
    ("committed_section", INTEGER, "reader"),  # last step in the cache that ended a section
    ("pass", INTEGER, "reader"),  # pass being streamed, from 1
    ("block", INTEGER, "reader"),  # blocks of the pass streamed so far
    ("rows_streamed", INTEGER, "reader"),  # over all passes
    ("rows_screened", INTEGER, "reader"),  # of the rows streamed: kept out of the cache, since held at a bound of alpha
    ("read_bytes", INTEGER, "reader"),
    ("disk_is_slow", INTEGER, "reader"),  # 1: see storage.machine.disk_health
    ("resident_rows", INTEGER, "reader"),
    ("resident_bytes", INTEGER, "reader"),
    ("evicted_rows", INTEGER, "reader"),  # over all passes
    ("reader_wait_seconds", REAL, "reader"),
    ("w_unverified", INTEGER, "reader"),  # 1: the checkpoint's w has not been compared with its alpha yet
    ("certificates_made", INTEGER, "reader"),
    ("reader_compiles_since", REAL, "reader"),  # time.monotonic; 0: the reader compiles no kernel now
    ("reader_compile_seconds", REAL, "reader"),  # in this attempt, up to the last compiled kernel
    # trainer
    ("trainer_heartbeat", REAL, "trainer"),
    ("trainer_compiles_since", REAL, "trainer"),
    ("trainer_compile_seconds", REAL, "trainer"),
    ("started_step", INTEGER, "trainer"),  # last step whose snapshot the trainer has opened
    ("finished_section", INTEGER, "trainer"),  # last step that ended a section which the trainer has finished
    ("trainer_wait_seconds", REAL, "trainer"),
    ("finished_passes", INTEGER, "trainer"),
    ("sweeps", INTEGER, "trainer"),  # over decoded rows, at the end of the last pass begun; 0: the pass is streaming
    ("solver_phase", INTEGER, "trainer"),  # number of the phase in SOLVER_PHASES, from 1; 0: the solver reports none
    ("sweeps_made", INTEGER, "trainer"),  # sweeps_made, newton_steps and scans count over all passes
    ("seconds_left", REAL, "trainer"),  # until sweeps are certified, if gaps go on falling; inf; 0: not known
    ("newton_steps", INTEGER, "trainer"),
    ("scans", INTEGER, "trainer"),  # scans of rows by Newton steps
    ("system_rows", INTEGER, "trainer"),  # rows of the largest system of the last Newton step; 0: there was no step
    ("sigma", REAL, "trainer"),  # sigma of the task with this largest system
    # From here on, figures of the last finished pass or its last sweep; with several lanes, of the worst lane.
    ("updates", INTEGER, "trainer"),
    ("M_plus", REAL, "trainer"),
    ("M_minus", REAL, "trainer"),
    ("rows_unvisited", INTEGER, "trainer"),
    ("dual_objective", REAL, "trainer"),
    ("primal_bound", REAL, "trainer"),
    ("free_rows", INTEGER, "trainer"),
    ("collects", INTEGER, "trainer"),  # 1: the trainer writes all rows to disk, to sweep over them after the pass
    ("certificates_wanted", INTEGER, "trainer"),  # at the published w, which stays unchanged until it is made
    ("ending", INTEGER, "trainer"),  # 1: the job ends within the pass, and needs no more of the pass's rows
    ("training_done", INTEGER, "trainer"),
    (
        "slowdowns",
        INTEGER,
        "trainer",
    ),  # faster methods given up: bits of storage.run.slowdowns; at first the bits that the plan has set
    ("checkpoint_failures", INTEGER, "trainer"),  # in this attempt: the disk had no room, or failed
    ("elapsed_seconds", REAL, "trainer"),  # over all attempts, up to the last finished section
    # worker
    ("w_unmade", INTEGER, "worker"),  # 1: the reader must compute w from the alpha with which the job begins
    ("stop", INTEGER, "worker"),  # a user asked to stop the job: after the current pass, or soon
    ("best_C", REAL, "worker"),  # of the values judged on rows held out by earlier lanes; 0: none is
    ("best_score", REAL, "worker"),  # the figure of `scoring` at this C
    ("hand_back", INTEGER, "worker"),  # 1: the worker ends: stop after the current section, with a checkpoint
)

# Arrays, and fields of the control page, that a checkpoint stores unchanged.
KEPT_ARRAYS = ("alpha", "score", "visited", "skipped")
KEPT = (
    "pass", "rows_streamed", "rows_screened", "read_bytes", "evicted_rows", "reader_wait_seconds",
    "trainer_wait_seconds", "finished_passes", "sweeps", "updates", "M_plus", "M_minus", "rows_unvisited",
    "dual_objective", "primal_bound", "free_rows", "elapsed_seconds", "sweeps_made", "newton_steps", "scans",
    "system_rows", "sigma", "solver_phase",
)  # fmt: skip

# Figures of each lane.
OF_LANE = (
    # reader, in the certificate pass
    ("final_primal_objective", REAL, "reader"),
    ("final_dual_objective", REAL, "reader"),
    ("final_M_plus", REAL, "reader"),
    ("final_M_minus", REAL, "reader"),
    ("final_w_error", REAL, "reader"),  # |w - sum_i alpha_i y_i x_i| / |w|
    ("final_training_score", REAL, "reader"),  # of the model that the lane belongs to; nan: not known
    # trainer, as of the last finished pass
    ("M_plus", REAL, "trainer"),
    ("M_minus", REAL, "trainer"),
    ("dual_objective", REAL, "trainer"),
    ("primal_bound", REAL, "trainer"),
    ("left_out_accuracy", REAL, "trainer"),  # approximate leave-one-out accuracy of the lane's model; 0, nan: not known
    ("converged_by", INTEGER, "trainer"),  # 0: not converged; else the reason's number in CONVERGED, from 1
)
_LANE_DTYPE = np.dtype([(name, dtype) for name, dtype, _ in OF_LANE])

_CONTROL_DTYPE = np.dtype([(name, dtype) for name, dtype, _ in CONTROL])


class Control:
    """The control page: numbers by field name. control["pass"] reads a field, control["pass"] = 3 writes it."""

    def __init__(self, path: Path, mode: str = "r+") -> None:
        page: Any = memoryview(open_array(path, np.dtype("u1"), (_CONTROL_DTYPE.itemsize,), mode))  # type: ignore[arg-type]
        # Fields are read many times a step: a memoryview of each field is much faster than a numpy record.
        self._fields = {
            name: page[8 * place : 8 * place + 8].cast("q" if dtype == INTEGER else "d")
            for place, (name, dtype, _) in enumerate(CONTROL)
        }

    def __getitem__(self, name: str) -> float:
        return self._fields[name][0]

    def __setitem__(self, name: str, value: float) -> None:
        self._fields[name][0] = value

    def values(self) -> dict[str, float]:
        """Return the present values of all fields, by name."""
        return {name: self[name] for name, _, _ in CONTROL}


@dataclass(frozen=True)
class State:
    """The mapped arrays of a run. A lane is a task: one of the problems that are trained side by side on the rows.

    alpha   (n_rows, lanes)  float64  dual variables; written by the trainer
    w       (width, lanes)   float64  weights last published by the trainer: constant during a pass
    lanes   (lanes,)         OF_LANE  figures of each lane
    score   (n_rows,)  float32  how little training gains by a row, as of its last visit: highest are evicted first
    visited (n_rows,)  uint8    stamp of the last pass in which the trainer visited the row; written by the trainer
    skipped (n_rows,)  uint8    stamp of the last pass that read the row while it was resident; written by the reader
    directory  the run directory, which holds the mapped files
    """

    alpha: Array
    w: Array
    lanes: Array
    score: Array
    visited: Array
    skipped: Array
    control: Control
    directory: Path


_ARRAYS = {
    "alpha": REAL,
    "w": REAL,
    "lanes": _LANE_DTYPE,
    "score": np.dtype("<f4"),
    "visited": np.dtype("u1"),
    "skipped": np.dtype("u1"),
}


# Bytes that a job of one lane holds for each feature: the trainer's w, w before a sweep over a cache with all rows, the
# published w, and two more vectors while a certificate is computed.
FEATURE_BYTES = 40

_STRIDE = 1 << 15  # rows or features for which `StateRoom` takes room at once


def state_bytes(n_rows: int, width: int, lanes: int = 1) -> int:
    """Return the bytes of all state files together."""
    shapes = _shapes(n_rows, width, lanes)
    return sum(dtype.itemsize * prod(shapes[name]) for name, dtype in _ARRAYS.items()) + _CONTROL_DTYPE.itemsize


def create_state(directory: Path, n_rows: int, width: int, is_sparse: bool = False, lanes: int = 1) -> State:
    """Make state files, filled with zeros, in a run directory. Raises OSError if the disk has no room.

    is_sparse  do not allocate disk space for the arrays over rows and features yet: `StateRoom` does so later
    """
    state = _map_state(directory, _shapes(n_rows, width, lanes), "w+")
    for name in ("control", "lanes") if is_sparse else ("control", *_ARRAYS):
        reserve(directory / name, (directory / name).stat().st_size)
    return state


def open_state(directory: Path, n_rows: int, width: int, lanes: int = 1) -> State:
    """Open the state files in a run directory, to read and write."""
    return _map_state(directory, _shapes(n_rows, width, lanes), "r+")


class StateRoom:
    """Allocates disk space in sparse state files for rows and features, as an import makes them known.

    No process may read a row or a feature before `take`: in a file system in memory, reading alone allocates space.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._n_rows = self._width = 0

    def take(self, n_rows: int, width: int) -> None:
        """Allocate space for the first `n_rows` rows and `width` features. Raises OSError if the disk has no room."""
        by_row = ("alpha", "score", "visited", "skipped")
        self._n_rows = self._take(by_row, self._n_rows, n_rows)
        self._width = self._take(("w",), self._width, width)

    def _take(self, names: tuple[str, ...], taken: int, wanted: int) -> int:
        """Allocate space in the arrays `names` for `wanted` entries or more; return the length that they now have."""
        if wanted <= taken:
            return taken
        length = min(-(-wanted // _STRIDE) * _STRIDE, len(getattr(self._state, names[0])))
        for name in names:
            array = getattr(self._state, name)
            reserve(self._state.directory / name, length * array.strides[0], taken * array.strides[0])
        return length


def open_control(directory: Path) -> Control:
    """Open the control page in a run directory, to read and write."""
    return Control(directory / "control")


def read_control(directory: Path) -> Control:
    """Open the control page in a run directory, only to read; the file system may be read-only."""
    return Control(directory / "control", "r")


def read_lanes(directory: Path) -> Array:
    """Return the figures of each lane of the run in this directory, OF_LANE; more than lanes, as many as w is wide."""
    return np.fromfile(directory / "lanes", _LANE_DTYPE)


def pass_stamp(number: int) -> int:
    """Return the stamp of pass `number` in `State.visited` and `skipped`: 1 to 255; 0 there means: in no pass yet."""
    return (number - 1) % 255 + 1


def _map_state(directory: Path, shapes: Mapping[str, tuple[int, ...]], mode: str) -> State:
    arrays = {name: open_array(directory / name, dtype, shapes[name], mode) for name, dtype in _ARRAYS.items()}
    return State(**arrays, control=Control(directory / "control", mode), directory=directory)


def _shapes(n_rows: int, width: int, lanes: int) -> dict[str, tuple[int, ...]]:
    a_row = dict.fromkeys(("score", "visited", "skipped"), (n_rows,))
    return {"alpha": (n_rows, lanes), "w": (width, lanes), "lanes": (lanes,), **a_row}


# The control page also says how long processes compile kernels. This time does not count towards `max_seconds`, and a
# process that compiles does not count as one that hangs.

# Most seconds for which a process may compile without a break; on a busy machine, compiling takes minutes.
PATIENCE_SECONDS = 1800.0


@contextmanager
def telling_compiling(run: Path, process: str) -> Iterator[None]:
    """Within the block, report on the run's control page how long this process, "reader" or "trainer", compiles."""
    control, begun = open_control(run), COMPILE_TIME.seconds

    def tell(since: float) -> None:
        control[f"{process}_compile_seconds"] = COMPILE_TIME.seconds - begun
        control[f"{process}_compiles_since"] = since

    COMPILE_TIME.tell = tell
    try:
        yield
    finally:
        COMPILE_TIME.tell = lambda _since: None


def compile_seconds(control: Control, process: str) -> float:
    """Return the seconds that a process of the run has compiled, including those of a kernel being compiled now."""
    since = control[f"{process}_compiles_since"]
    return control[f"{process}_compile_seconds"] + (time.monotonic() - since if since else 0.0)


def is_compiling(control: Control) -> bool:
    """Whether the run's reader or trainer is compiling a kernel now."""
    return bool(control["reader_compiles_since"] or control["trainer_compiles_since"])


def silent_until(control: Control, process: str) -> float:
    """Return the time.monotonic until which a process that compiles may send no heartbeat; 0.0: it compiles nothing."""
    since = control[f"{process}_compiles_since"]
    return since + PATIENCE_SECONDS if since else 0.0


def backoff_sleep(since: float) -> float:
    """Sleep for a tenth of the time since `since` (a time.perf_counter), 50 us to 2 ms; return the seconds slept.

    Waiting for another process, the sleeps are short at first, to react fast, and longer later, to leave it the cores.
    """
    began = time.perf_counter()
    time.sleep(min(max((began - since) / 10, 50e-6), 2e-3))
    return time.perf_counter() - began
