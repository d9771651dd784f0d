"""A job's state, memory-mapped and shared by reader, trainer and worker: each field and array has one writer."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.files.arrays import open_array, reserve
from streamsvm.storage.rows.csr import Array

# With several columns, one index, one value and one cache line of w serve up to eight tasks.
WIDTHS = (1, 4, 8, 16)
_LINE = 8  # float64 numbers in a cache line


def width_for(lanes: int) -> int:
    """The smallest of WIDTHS with a column for each of so many tasks."""
    return next(width for width in WIDTHS if width >= lanes)


def aligned(array: Array) -> Array:
    """A copy of the array as `zeros` lays it out, float64."""
    copy = zeros(*array.shape)
    copy[:] = array
    return copy


def zeros(*shape: int) -> Array:
    """A float64 array of zeros that begins on a cache line: a row of up to 8 columns then lies within one line."""
    n = int(np.prod(shape))
    room = np.zeros(n + _LINE)
    start = (-room.ctypes.data // room.itemsize) % _LINE
    return room[start : start + n].reshape(shape)


# Other files of a run directory: the settings of both processes, and the cache that they share.
RUN_FILE, CACHE_FILE = "run.json", "cache"

INTEGER, REAL = np.dtype("<i8"), np.dtype("<f8")

# Phases of a solver that tells its own: rows are read in; it sweeps over all rows; it makes Newton steps.
SOLVER_PHASES = ("stream", "sweep", "newton")

# name, type, writer. Eight bytes each, so that a read never sees half of a write.
CONTROL = (
    # reader
    ("reader_heartbeat", REAL, "reader"),  # monotonic clock, seconds; until a later moment silence is expected
    ("committed_step", INTEGER, "reader"),  # last step in the cache
    ("committed_section", INTEGER, "reader"),  # last step in the cache that ended a section
    ("pass", INTEGER, "reader"),  # pass being streamed, from 1
    ("block", INTEGER, "reader"),  # blocks of the pass streamed so far
    ("rows_streamed", INTEGER, "reader"),  # over all passes
    ("rows_screened", INTEGER, "reader"),  # of these, kept out of the cache because they rest at their bound
    ("read_bytes", INTEGER, "reader"),
    ("resident_rows", INTEGER, "reader"),
    ("resident_bytes", INTEGER, "reader"),
    ("evicted_rows", INTEGER, "reader"),  # over all passes
    ("reader_wait_seconds", REAL, "reader"),
    ("w_unverified", INTEGER, "reader"),  # the w of the checkpoint it began with is still to be compared
    ("certificates_made", INTEGER, "reader"),
    ("reader_compiles_since", REAL, "reader"),  # monotonic clock; 0: it compiles no kernel now
    ("reader_compile_seconds", REAL, "reader"),  # in this attempt, as of the last kernel
    # trainer
    ("trainer_heartbeat", REAL, "trainer"),
    ("trainer_compiles_since", REAL, "trainer"),
    ("trainer_compile_seconds", REAL, "trainer"),
    ("started_step", INTEGER, "trainer"),  # last step whose snapshot it has taken
    ("finished_section", INTEGER, "trainer"),  # last step that ended a section which the trainer has finished
    ("trainer_wait_seconds", REAL, "trainer"),
    ("finished_passes", INTEGER, "trainer"),
    ("sweeps", INTEGER, "trainer"),  # over decoded rows, at the end of the last pass begun; 0: it is streaming
    ("solver_phase", INTEGER, "trainer"),  # its place in SOLVER_PHASES, from 1; 0: the solver does not tell it
    ("sweeps_made", INTEGER, "trainer"),  # this and the next two are over all passes
    ("newton_steps", INTEGER, "trainer"),
    ("scans", INTEGER, "trainer"),  # that Newton steps made
    ("system_rows", INTEGER, "trainer"),  # in the largest system of the last Newton step; 0: there was no step
    ("sigma", REAL, "trainer"),  # of the task that had this system
    # this and all below as of the last finished pass, or of its last sweep; of several lanes, of the worst
    ("updates", INTEGER, "trainer"),
    ("M_plus", REAL, "trainer"),
    ("M_minus", REAL, "trainer"),
    ("rows_unvisited", INTEGER, "trainer"),
    ("dual_objective", REAL, "trainer"),
    ("primal_bound", REAL, "trainer"),
    ("free_rows", INTEGER, "trainer"),
    ("collects", INTEGER, "trainer"),  # after the pass it will sweep over all rows, on disk
    ("certificates_wanted", INTEGER, "trainer"),  # at the published w; nothing changes until it is made
    ("ending", INTEGER, "trainer"),  # the job ends within the pass: no more of it is asked for
    ("training_done", INTEGER, "trainer"),
    (
        "slowdowns",
        INTEGER,
        "trainer",
    ),  # faster ways given up: bits of storage.run.slowdowns; begins with those of the plan
    ("checkpoint_failures", INTEGER, "trainer"),  # in this attempt: there was no room, or the disk failed
    ("elapsed_seconds", REAL, "trainer"),  # over all attempts, as of the last finished section
    # worker
    ("w_unmade", INTEGER, "worker"),  # the reader has to compute w from the alpha that the job begins with
    ("stop", INTEGER, "worker"),  # a person asked for an end: after the running pass, or soon
    ("hand_back", INTEGER, "worker"),  # the worker has to end: stop after the running section, with a checkpoint
)

# Counts over all passes, or of now, that a job's progress shows; those of several machines are summed up.
COUNTS = (
    "rows_streamed", "rows_screened", "read_bytes", "resident_rows", "resident_bytes", "evicted_rows", "updates"
)  # fmt: skip

# Arrays and fields of the control page that a checkpoint keeps as they are.
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
    # trainer, as of the last finished pass
    ("M_plus", REAL, "trainer"),
    ("M_minus", REAL, "trainer"),
    ("dual_objective", REAL, "trainer"),
    ("primal_bound", REAL, "trainer"),
    ("converged_by", INTEGER, "trainer"),  # 0: not yet; else the place in CONVERGED of why, from 1: it is left as it is
)
_LANE_DTYPE = np.dtype([(name, dtype) for name, dtype, _ in OF_LANE])

_CONTROL_DTYPE = np.dtype([(name, dtype) for name, dtype, _ in CONTROL])


class Control:
    """The control page: `control["pass"]` reads, `control["pass"] = 3` writes."""

    def __init__(self, path: Path, mode: str = "r+") -> None:
        page: Any = memoryview(open_array(path, np.dtype("u1"), (_CONTROL_DTYPE.itemsize,), mode))  # type: ignore[arg-type]
        # Looked at many times a step: a view of each field is much faster than a record's fields.
        self._fields = {
            name: page[8 * place : 8 * place + 8].cast("q" if dtype == INTEGER else "d")
            for place, (name, dtype, _) in enumerate(CONTROL)
        }

    def __getitem__(self, name: str) -> float:
        return self._fields[name][0]

    def __setitem__(self, name: str, value: float) -> None:
        self._fields[name][0] = value

    def values(self) -> dict[str, float]:
        """All fields by name."""
        return {name: self[name] for name, _, _ in CONTROL}


@dataclass(frozen=True)
class State:
    """The mapped arrays of a job. Lanes are its tasks, the problems over the same rows, side by side.

    alpha   (n_rows, lanes)  float64  dual variables; written by the trainer
    w       (width, lanes)   float64  the weights as last published by the trainer: constant while a pass streams
    lanes   (lanes,)         OF_LANE  figures of each
    score   (n_rows,)  float32  how little a row has left to teach, as of its last visit: highest leaves first
    visited (n_rows,)  uint8    stamp of the last pass in which the row was visited; written by the trainer
    skipped (n_rows,)  uint8    stamp of the last pass in which it streamed by while resident; written by the reader
    directory  where all this is
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


# Bytes that a job of one lane holds for each feature: w of the trainer, w before a sweep over a cache with all rows,
# the published w, and two more while it is certified.
FEATURE_BYTES = 40

_STRIDE = 1 << 15  # rows or features


def state_bytes(n_rows: int, width: int, lanes: int = 1) -> int:
    """Size of all state files together."""
    shapes = _shapes(n_rows, width, lanes)
    return sum(dtype.itemsize * prod(shapes[name]) for name, dtype in _ARRAYS.items()) + _CONTROL_DTYPE.itemsize


def create_state(directory: Path, n_rows: int, width: int, is_sparse: bool = False, lanes: int = 1) -> State:
    """New state files, all zero; OSError if there is no room.

    is_sparse  arrays of rows and features have no room on the disk yet: `StateRoom` takes it
    """
    state = _map_state(directory, _shapes(n_rows, width, lanes), "w+")
    for name in ("control", "lanes") if is_sparse else ("control", *_ARRAYS):
        reserve(directory / name, (directory / name).stat().st_size)
    return state


def open_state(directory: Path, n_rows: int, width: int, lanes: int = 1) -> State:
    """The state files of a running job, read and write."""
    return _map_state(directory, _shapes(n_rows, width, lanes), "r+")


class StateRoom:
    """Takes room on the disk for the rows and features of sparse state files, as they come to be known.

    Nobody may look at a row or a feature before: looking alone takes room in a file system that lies in memory.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._n_rows = self._width = 0

    def take(self, n_rows: int, width: int) -> None:
        """Make sure of room for so many rows and features. Raises OSError if there is none."""
        by_row = ("alpha", "score", "visited", "skipped")
        self._n_rows = self._take(by_row, self._n_rows, n_rows)
        self._width = self._take(("w",), self._width, width)

    def _take(self, names: tuple[str, ...], taken: int, wanted: int) -> int:
        """The length that the arrays have room for now, somewhat more than is wanted."""
        if wanted <= taken:
            return taken
        length = min(-(-wanted // _STRIDE) * _STRIDE, len(getattr(self._state, names[0])))
        for name in names:
            array = getattr(self._state, name)
            reserve(self._state.directory / name, length * array.strides[0], taken * array.strides[0])
        return length


def open_control(directory: Path) -> Control:
    """The control page alone."""
    return Control(directory / "control")


def read_control(directory: Path) -> Control:
    """The control page of somebody else's run: only to look at, be it on a read-only file system."""
    return Control(directory / "control", "r")


def pass_stamp(number: int) -> int:
    """The mark of pass `number` in `visited`: 1 to 255, never 0, which means not yet."""
    return (number - 1) % 255 + 1


def _map_state(directory: Path, shapes: Mapping[str, tuple[int, ...]], mode: str) -> State:
    arrays = {name: open_array(directory / name, dtype, shapes[name], mode) for name, dtype in _ARRAYS.items()}
    return State(**arrays, control=Control(directory / "control", mode), directory=directory)


def _shapes(n_rows: int, width: int, lanes: int) -> dict[str, tuple[int, ...]]:
    a_row = dict.fromkeys(("score", "visited", "skipped"), (n_rows,))
    return {"alpha": (n_rows, lanes), "w": (width, lanes), "lanes": (lanes,), **a_row}
