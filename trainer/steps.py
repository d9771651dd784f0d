"""Where a solver's rows come from: the cache's steps, one after the other, and the state shared with the reader."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from storage.cache import CacheReader, Step
from storage.csr import EMPTY, Array
from storage.naps import nap
from storage.segment import Segment
from storage.state import State, pass_stamp
from trainer.checkpoints import Checkpoints, contents

EMPTY_IDS = np.empty(0, np.int32)
# Names under which a checkpoint keeps the rows of each segment, their ids, their numbers of values.
RESIDENTS = ("segment_rows", "resident_row_id", "resident_nnz")


class HandedBack(Exception):
    """The worker has to end: what there is has been kept, and the job goes on with another one."""

    exit_code = 7  # of a process that ends with it


class Steps:
    """Gives a solver the cache a step at a time, and its notes on the visited rows to the reader.

    `deferred`: what a step notes reaches the reader when the next step begins. The reader then works on the step after
    that, and finds the same scores however fast either process is: this makes a run reproducible.

    follows  the first pass is over a dataset that is being read in: what there is of it is of no use without the rest
    kept  what a solver had asked to `keep` when the checkpoint was made that the run goes on from; until it asks anew
    """

    def __init__(
        self,
        cache: CacheReader,
        state: State,
        deferred: bool,
        wait: Callable[[float], object] = nap,
        checkpoints: Checkpoints | None = None,
        kept: Mapping[str, Array] = EMPTY,
        follows: bool = False,
    ) -> None:
        self.kept = kept
        self._follows = follows
        self._checkpoints = checkpoints
        self._resumable: Callable[[], Mapping[str, Array]] | None = None  # None: the solver has not begun
        self._keeps_sections = True
        self._cache = cache
        self._state = state
        self._deferred = deferred
        self._wait = wait
        self._notes: list[tuple[Array, Array]] = []
        self._marked = 0  # notes already entered in `visited`
        self._step: Step | None = None
        self._stamp = 0
        self._began = time.monotonic() - state.control["elapsed_seconds"]
        # Of a dataset that is being read in, w is zero and its length a bound, beyond what memory has room for.
        self._half_norm = 0.0 if follows else float(state.w @ state.w) / 2  # of the w the running pass is certified at

    @property
    def elapsed_seconds(self) -> float:
        """Time spent on the job, that before a checkpoint included."""
        return time.monotonic() - self._began

    @property
    def step(self) -> Step:
        """The one `next` returned last."""
        assert self._step is not None
        return self._step

    @property
    def is_next_ready(self) -> bool:
        """Whether `next` would return at once."""
        number = self._step.number if self._step else 0
        return bool(self._state.control["committed_step"] > number)

    def _await_next(self) -> None:
        """Wait until `next` would return at once."""
        began = time.perf_counter()
        while not self.is_next_ready:
            self.beat()
            self._wait(began)
        self._state.control["trainer_wait_seconds"] += time.perf_counter() - began

    def next(self) -> Step:
        """Move on to the next step, waiting for it if need be."""
        self._await_next()
        step = self._step = self._cache.renew()
        self._hand_over()
        self._stamp = pass_stamp(step.pass_)
        self._state.control["elapsed_seconds"] = self.elapsed_seconds
        self._state.control["started_step"] = step.number
        return step

    def end_section(self, w: Array) -> None:
        """All that was to be done in a section has been done: the reader may begin the next.

        At the end of a pass `w` is published: the coming pass is certified at it.
        """
        step = self.step
        self._hand_over()
        if step.ends_pass:
            self.publish(w)
            known = w[: step.width]
            self._half_norm = float(known @ known) / 2
        self._pause(step, w)
        self._state.control["finished_section"] = step.number

    def keep(self, resumable: Callable[[], Mapping[str, Array]], sections: bool = True) -> None:
        """A solver's own arrays, to be asked for at the end of sections and given back as `kept` after a crash.

        Not `sections`: at the end of passes only, for a solver that cannot go on from within one.
        """
        self._resumable, self._keeps_sections = resumable, sections
        self.kept = EMPTY

    def make_checkpoint(self, w: Array, ended: Mapping[str, Any] | None = None) -> None:
        """Of the section that has just been done with.

        ended   what is to be known of a job that trains no further, if its processes die before its model is there
        """
        step, checkpoints = self._step, self._checkpoints
        if not (checkpoints and step and self._resumable):
            return
        is_following = self._follows and step.pass_ == 1
        if step.ends_pass or (self._keeps_sections and not is_following):
            self._hand_over()
            residents = self._residents() if checkpoints.is_exact else {}
            about, arrays = contents(step, self._state, w, checkpoints.is_exact)
            about["ended"] = ended
            is_sure = not self._state.control["unsure"]
            checkpoints.make(about, {**arrays, **residents, **self._resumable()}, is_sure)
            self._state.control["checkpoint_failures"] = checkpoints.failures

    def show_sweep(self, **figures: float) -> None:
        """One more sweep over the active set is over, and came to these fields of the control page."""
        self._state.control["sweeps"] += 1
        self._state.control["elapsed_seconds"] = self.elapsed_seconds
        for name, figure in figures.items():
            self._state.control[name] = figure

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether one is to be made before the section ends: where the run goes on from need not be exact."""
        checkpoints = self._checkpoints
        return bool(checkpoints and not checkpoints.is_exact and checkpoints.is_due(ends_pass=False))

    def checkpoint_within(self, w: Array) -> None:
        """Make a checkpoint if `is_checkpoint_due`, though no section has ended: it goes on from the pass's start."""
        if self.is_checkpoint_due:
            at_end, self._step = self.step, replace(self.step, ends_pass=False)
            self._state.control["elapsed_seconds"] = self.elapsed_seconds
            self.make_checkpoint(w)
            self._step = at_end

    def _residents(self) -> dict[str, Array]:
        """The rows of the cache, segment by segment, in the order of their ids."""
        step = self.step
        segments = [self.read(segment_id) for segment_id in sorted((*step.fresh, *step.resident))]
        lengths = [np.diff(rows.indptr) for rows in segments]
        columns = (
            np.array([len(rows) for rows in segments], np.int64),
            np.concatenate([EMPTY_IDS, *(rows.row_id for rows in segments)], dtype=np.int32),
            np.concatenate([EMPTY_IDS, *lengths], dtype=np.int32),
        )
        return dict(zip(RESIDENTS, columns, strict=True))

    def repeat(self, w: Array) -> Step:
        """The same step once more, as the next pass."""
        self._state.control["elapsed_seconds"] = self.elapsed_seconds
        self._pause(self.step, w)
        self._step = replace(self.step, pass_=self.step.pass_ + 1)
        self._stamp = pass_stamp(self._step.pass_)
        return self._step

    def read(self, segment_id: int) -> Segment:
        """A segment of the step, valid until `next`."""
        return self._cache.read(segment_id)

    @property
    def score(self) -> Array:
        """Of the state: what was noted, unless that is deferred."""
        return self._state.score

    @property
    def published(self) -> Array:
        """The w published last, (width,), of the state. From the end of a pass until `end_section` nobody reads it."""
        return self._state.w

    @property
    def spilled(self) -> Array:
        """Of the state, to be written."""
        return self._state.spilled

    @property
    def is_interrupted(self) -> bool:
        """Whether the job is to stop, or to be handed back, as soon as it can be."""
        return bool(self._state.control["stop"] or self._state.control["hand_back"])

    def beat(self) -> None:
        """The trainer is alive."""
        self._state.control["trainer_heartbeat"] = time.monotonic()

    def note(self, row_id: Array, score: Array) -> None:
        """The rows (k,) were visited in this step and left these scores (k,)."""
        self.beat()
        if self._deferred:
            self._notes.append((row_id.copy(), score.copy()))
        else:
            self._state.score[row_id] = score
            self._state.visited[row_id] = self._stamp

    def unvisited(self, row_id: Array) -> Array:
        """Positions (k,) int32 of the rows not visited in this pass so far. At the end of a pass only."""
        self._mark_visited()
        return np.flatnonzero(self._state.visited[row_id] != self._stamp).astype(np.int32)

    def count_unvisited(self, step: Step) -> int:
        """Rows of the whole problem not visited in the pass that `step` ends, neither here nor by the reader."""
        self._mark_visited()
        visited = self._state.visited[: step.n_rows]
        return int(np.count_nonzero(visited != self._stamp)) - step.screened_unvisited

    def publish(self, w: Array) -> None:
        """Let the reader see this w."""
        width = self._step.width if self._step else 0
        self._state.w[:width] = w[:width]

    def primal(self, step: Step) -> float:
        """P at the w published before the pass that `step` ends."""
        return self._half_norm + step.pass_losses

    def _pause(self, step: Step, w: Array) -> None:
        """Between two sections, of which `step` ended one: make a checkpoint if it is time, and end if asked to."""
        hands_back = bool(self._state.control["hand_back"])
        if self._checkpoints and (hands_back or self._checkpoints.is_due(step.ends_pass)):
            self.make_checkpoint(w)
        if hands_back:
            raise HandedBack

    def _mark_visited(self) -> None:
        # The reader asks `visited` about the coming pass already: marking this one's rows early changes no answer.
        for rows, _ in self._notes[self._marked :]:
            self._state.visited[rows] = self._stamp
        self._marked = len(self._notes)

    def _hand_over(self) -> None:
        self._mark_visited()
        for rows, scores in self._notes:
            self._state.score[rows] = scores
        self._notes.clear()
        self._marked = 0
