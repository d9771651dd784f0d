"""The state that a trainer shares with reader and service: scores of rows, the published w, figures, heartbeats."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.models.support_vectors import KernelState
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.slowdowns import bits_of
from streamsvm.storage.run.state import SOLVER_PHASES, State, backoff_sleep, pass_stamp
from streamsvm.trainer.problem.objective import half_squares
from streamsvm.trainer.updates.limits import Elapsed, Ended, JobLimits
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress

T = TypeVar("T")
SHOWN_OF_LANE = ("M_plus", "M_minus", "dual_objective", "primal_bound")
_NO_COLUMNS: Mapping[int, Array] = {}
_SHOWN = ("updates", "rows_unvisited", "free_rows", *SHOWN_OF_LANE)


class HandedBack(Exception):
    """Ends the trainer because its worker has to end. Another worker goes on from the checkpoint that has been made."""

    exit_code = 7  # of a process that ends by this exception


class SharedState:
    """Reads and writes a job's state files on behalf of the trainer.

    deferred   scores and visits of a step reach the reader when the next step begins, whatever the speed of the two
               processes: this makes a run reproducible
    is_blank   the dataset is being read in: w is zero, and too long to be read through, since its length is a bound
    n_figures  length of arrays of figures (P, D, M+, M-), see trainer.problem.tasks
    wait       sleeps a moment; its argument is the time.perf_counter at which the waiting began
    """

    def __init__(
        self,
        state: State,
        deferred: bool,
        is_blank: bool = False,
        n_figures: int = 1,
        wait: Callable[[float], object] = backoff_sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.control = state.control
        self._state = state
        self._deferred = deferred
        self._n_figures = n_figures
        self._wait = wait
        self._elapsed = Elapsed(self.control, clock)
        self._notes: list[tuple[Array, Array, bool]] = []  # ids, scores, whether they were visited
        self._marked = 0  # number of `_notes` already entered in the state's `visited`
        self._stamp = self._width = 0
        self.limits: JobLimits | None = None  # None: only the caller decides when the job ends
        # |w|^2 / 2 of the published w.
        self._half_norm = np.zeros(n_figures) if is_blank else half_squares(state.w, n_figures)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds that the job has taken in all attempts, without those in which this process compiled kernels."""
        return self._elapsed.seconds

    def beat(self, silence: float = 0.0) -> None:
        """Set the trainer's heartbeat: the worker takes the trainer for alive if it is silent for `silence` seconds."""
        self.control["trainer_heartbeat"] = time.monotonic() + silence

    def slow_down(self, codes: Collection[str]) -> None:
        """Record slowdowns in the control page: faster ways that the job has given up, by their codes."""
        if codes:
            self.control["slowdowns"] = int(self.control["slowdowns"]) | bits_of(codes)

    def enter(self, phase: str) -> None:
        """Record in the control page that the solver enters `phase`, one of SOLVER_PHASES."""
        self.control["solver_phase"] = 1 + SOLVER_PHASES.index(phase)

    def has_committed(self, number: int) -> bool:
        """Whether the reader has committed the step of this number to the cache."""
        return bool(self.control["committed_step"] >= number)

    def wait_until(self, is_done: Callable[[], bool]) -> float:
        """Wait until `is_done` returns True, and set the heartbeat meanwhile; return the seconds waited."""
        began = time.perf_counter()
        with self._elapsed.waiting():
            while not is_done():
                self.beat()
                self._wait(began)
        return time.perf_counter() - began

    @property
    def hands_back(self) -> bool:
        """Whether this worker has to end, and another worker is to go on with the job."""
        return bool(self.control["hand_back"])

    @property
    def is_interrupted(self) -> bool:
        """Whether training is to stop soon: a person asked for it, the worker has to end, or a limit has passed."""
        return bool(self.control["stop"]) or self.hands_back or self.has_to_end

    @property
    def has_to_end(self) -> bool:
        """Whether the job has to end now, within its pass, because of `limits`."""
        return self.limits is not None and self.limits.has_passed

    def end_if_due(self) -> None:
        """Raise Ended if the job has to end within its pass. Callers make sure that w = sum_i alpha_i y_i x_i then."""
        if self.has_to_end:
            raise Ended

    def going(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items one by one, and stop early once the job has to end within its pass."""
        for item in items:
            if self.has_to_end:
                return
            yield item

    def uninterrupted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items one by one, with a heartbeat for each, and stop early once training is to stop soon."""
        for item in items:
            if self.is_interrupted:
                return
            self.beat()
            yield item

    # Rows

    def begin_step(self, step: Step, pass_: int) -> None:
        """Begin a step, to which later calls of `note` belong. `pass_`: number of the pass, recorded with visits."""
        self.hand_over()
        self._stamp = pass_stamp(pass_)
        self._width = step.width
        self.control["elapsed_seconds"] = self.elapsed_seconds

    def note(self, row_id: Array, score: Array, is_visit: bool = True) -> None:
        """Record the scores (k,) of the rows with ids (k,) and, if `is_visit`, that this pass has visited the rows."""
        self.beat()
        if self._deferred:
            self._notes.append((row_id.copy(), score.copy(), is_visit))
            return
        self._state.score[row_id] = score
        if is_visit:
            self._state.visited[row_id] = self._stamp

    def hand_over(self) -> None:
        """Write all deferred scores and visits into the state, where the reader sees them."""
        self._mark_visited()
        for rows, scores, _ in self._notes:
            self._state.score[rows] = scores
        self._notes.clear()
        self._marked = 0

    @property
    def score(self) -> Array:
        """The scores (n_rows,) by row id, as the reader sees them: without deferred ones."""
        return self._state.score

    def unvisited(self, row_id: Array) -> Array:
        """Return the positions in `row_id` of rows not visited in this pass, int32. Call it at the pass's end only."""
        self._mark_visited()
        return np.flatnonzero(self._state.visited[row_id] != self._stamp).astype(np.int32)

    def count_unvisited(self, step: Step) -> int:
        """Return how many rows the trainer has not visited, nor the reader screened, in the pass that `step` ends."""
        self._mark_visited()
        visited = self._state.visited[: step.n_rows]
        return int(np.count_nonzero(visited != self._stamp)) - step.screened_unvisited

    def forget_visits(self) -> None:
        """Mark all rows as never visited, since the reader's count of passes is behind that of the trainer."""
        self._state.visited[:] = 0

    def _mark_visited(self) -> None:
        # The reader compares `visited` with the coming pass already: marks of this pass change no result.
        for rows in (rows for rows, _, is_visit in self._notes[self._marked :] if is_visit):
            self._state.visited[rows] = self._stamp
        self._marked = len(self._notes)

    # w and the objective

    def publish(self, w: Array, columns: Mapping[int, Array] = _NO_COLUMNS) -> None:
        """Publish w for the reader, with `columns` (number -> (features,)) in place of w's. Raises ValuesOverflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            half_norm = half_squares(w[: self._width], self._n_figures)
            half_norm[[*columns]] = [column @ column / 2 for column in columns.values()]
        if not np.isfinite(half_norm).all():
            raise ValuesOverflow("the weights")
        self._state.w[: self._width], self._half_norm = w[: self._width], half_norm
        for place, column in columns.items():
            self._state.w[: len(column), place] = column

    def publish_machine(self, machine: KernelState) -> None:
        """Publish a kernel machine for the reader and the worker. Raises ValuesOverflow if beta is not finite."""
        if not np.isfinite(machine.beta).all():
            raise ValuesOverflow("the weights")
        machine.publish(self._state.directory)

    @property
    def scratch_w(self) -> Array:
        """The array of the published w, as scratch memory: the trainer may overwrite it while the reader rests."""
        return self._state.w

    def primal(self, step: Step) -> Array:
        """Return the primal objective P at the w published before the pass that `step` ends, (n_figures,)."""
        return self._half_norm + np.array(step.pass_losses)

    @property
    def certified_primal(self) -> Array:
        """The primal objective P at the w certified last, (n_figures,); inf before the first certificate."""
        figures = self._state.lanes["final_primal_objective"][: self._n_figures]
        return np.array(figures) if self.control["certificates_made"] else np.full(self._n_figures, np.inf)

    @property
    def has_converged(self) -> Array:
        """Whether each lane has converged, (lanes,) bool."""
        return self._state.lanes["converged_by"] != 0

    def certify(self, w: Array, columns: Mapping[int, Array] = _NO_COLUMNS) -> None:
        """Publish w, see `publish`, and wait until the reader has written the certificate at w into the state."""
        self.publish(w, columns)
        self.control["certificates_wanted"] += 1
        self.wait_until(lambda: self.control["certificates_made"] >= self.control["certificates_wanted"])

    def note_left_out(self, accuracy: Array | float) -> None:
        """Write the approximate leave-one-out accuracy of each task's model, (width,), into the state; 0: not known."""
        self._state.lanes["left_out_accuracy"] = accuracy

    def show(self, progress: PassProgress) -> None:
        """Write the figures of a pass or sweep into the state, for the service and its pages."""
        self.control["elapsed_seconds"] = self.elapsed_seconds
        show_figures(self._state, progress)

    def show_step(self, step: NewtonStep) -> None:
        """Write a Newton step, and the figures at its end, into the state."""
        note_step(self._state, step)
        self.show(step.found)


def show_figures(state: State, progress: PassProgress) -> None:
    """Write the figures of a pass, a sweep or a Newton step into a job's state."""
    for name in _SHOWN:
        state.control[name] = getattr(progress, name)
    each = progress.lanes or (progress,)
    for name in SHOWN_OF_LANE:
        state.lanes[name][: len(each)] = [getattr(lane, name) for lane in each]


def note_step(state: State, step: NewtonStep) -> None:
    """Write number, scans, rows and sigma of a Newton step into a job's state, but none of the objective's figures."""
    rows, sigma = step.largest
    of_step = {"newton_steps": step.number, "scans": step.scans, "system_rows": rows, "sigma": sigma}
    for name, value in of_step.items():
        state.control[name] = value
