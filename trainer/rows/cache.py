"""Leads a solver through the cache: from step to step that the reader commits, and in sweeps over the cached rows."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from streamsvm.storage.rows.cache import CacheReader, Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.checkpoints import Checkpoints, resident_rows
from streamsvm.trainer.rows.mixture import IsActive, Mixture, mixed
from streamsvm.trainer.shared_state import HandedBack, SharedState
from streamsvm.trainer.updates.model_weights import ModelWeights


class Cursor:
    """Gives a solver the rows of the cache, step by step. Between steps it writes checkpoints.

    It raises HandedBack once the worker has asked the job to end, so that another worker can resume it.

    model        the w of published models, where it differs from the sum of alpha_i y_i x_i
    training     the StreamTraining that holds the rows; None until training has begun
    most_sweeps  limit on the sweeps of a pass
    """

    def __init__(self, cache: CacheReader | None, shared: SharedState, checkpoints: Checkpoints) -> None:
        self.shared, self.most_sweeps = shared, inf
        self.training: Any = None
        self.checkpoints, self.model = checkpoints, ModelWeights(checkpoints.kept)
        self._cache = cache
        self._step: Step | None = None
        self._repeated = 0  # passes without the reader
        self.is_whole = False  # one block has all rows, in the order in which the reader brings them

    @property
    def step(self) -> Step:
        """The step that `next`, `next_section`, `skip_pass` or `repeat` returned last."""
        assert self._step is not None
        return self._step

    @property
    def is_next_ready(self) -> bool:
        """Whether `next` would return at once."""
        return self.shared.has_committed(1 + (self._step.number if self._step else 0))

    def next(self) -> Step:
        """Wait for the next step and return it. Raises Ended if the job has to end first."""
        assert self._cache is not None
        self.shared.control["trainer_wait_seconds"] += self.shared.wait_until(
            lambda: self.is_next_ready or self.shared.has_to_end
        )
        self.shared.end_if_due()
        return self._take()

    def next_section(self, w: Array) -> Step:
        """End the section, if one has begun; wait for the next section's last step and return it. Raises Ended.

        Meanwhile the trainer holds no snapshot of the cache: the reader commits steps without waiting for it.
        """
        assert self._cache is not None
        before = 0 if self._step is None else self._step.number
        if self._step is not None:
            self._finish_section(w)
        self._cache.release()
        control = self.shared.control
        control["finished_section"] = before
        control["trainer_wait_seconds"] += self.shared.wait_until(
            lambda: control["committed_section"] > before or self.shared.has_to_end
        )
        if self.shared.has_to_end:
            # The last checkpoint lists the rows in the cache, so the reader must not change them any more.
            control["ending"] = 1
            if control["committed_step"]:
                self._take()
            self.shared.end_if_due()
        return self._take()

    def _take(self) -> Step:
        """Take a snapshot of the cache at its newest step, and return the step."""
        assert self._cache is not None
        step = self._cache.renew()
        self._step = replace(step, pass_=step.pass_ + self._repeated)
        self.shared.begin_step(self._step, step.pass_)
        self.shared.control["started_step"] = step.number
        return self._step

    def skip_pass(self) -> Step:
        """Make the present step the last of its pass, and return it: the trainer has all rows without the reader."""
        self._step = replace(self.step, ends_pass=True, ends_section=True)
        return self._step

    def repeat(self, w: Array) -> Step:
        """Begin the next pass at the present step, and return it: the trainer has all rows, and the reader rests."""
        self._pause(w)
        self._step = replace(self.step, pass_=self.step.pass_ + 1)
        self._repeated += 1
        self.shared.begin_step(self._step, self._step.pass_)
        return self._step

    def stand(self, step: Step) -> None:
        """Set the step directly, for a trainer that has no cache because its rows are elsewhere."""
        self._step = step

    def read(self, segment_id: int) -> Segment:
        """Return a segment of the step by its id. It is valid until `next` is called."""
        assert self._cache is not None
        return self._cache.read(segment_id)

    def end_section(self, w: Array) -> None:
        """End the section, so that the reader begins the next section.

        At the end of a pass also publish `w`, at which the reader adds up the losses of the next pass.
        """
        self._finish_section(w)
        self.shared.control["finished_section"] = self.step.number

    def _finish_section(self, w: Array) -> None:
        self.shared.hand_over()
        if self.step.ends_pass:
            self.shared.publish(w)
        self._pause(w)

    def leave_pass(self) -> None:
        """Leave the present pass unfinished: a job that goes on from a checkpoint begins the pass anew."""
        if self._step is not None:
            self._step = replace(self._step, ends_pass=False, pieces=0)

    def make_checkpoint(self, w: Array, ended: Mapping[str, Any] | None = None) -> None:
        """Make a checkpoint at the end of a section, see Checkpoints.make."""
        if self._step is not None:
            self.shared.hand_over()
            self.checkpoints.make(self._step, w, self._residents, ended)

    def _residents(self) -> dict[str, Array]:
        # A job that goes on from the checkpoint gets the whole block from the reader. If the checkpoint listed cached
        # rows, the reader would bring the others behind them: a run of fixed pace would not end in the same bytes.
        if self.is_whole:
            return resident_rows([])
        # A checkpoint has segments in the order of their ids.
        return resident_rows([self.read(number) for number in sorted((*self.step.fresh, *self.step.resident))])

    def _pause(self, w: Array) -> None:
        """Between two sections: make a checkpoint if one is due, and raise HandedBack if the worker has to end."""
        if self.shared.hands_back or self.checkpoints.is_due(self.step.ends_pass):
            self.make_checkpoint(w)
        if self.shared.hands_back:
            raise HandedBack


class CachedRows:
    """The rows in the cache, as a store of rows to sweep over: `take_in` each step first.

    lent      number of windows that may be in use at a time
    segments  ids of all segments in the cache
    """

    # Unlike a disk, memory does not fail. Sweeps over active rows read these where they are, without a copy.
    is_open = has_active = True
    n_aside = 0

    def __init__(self, cursor: Cursor, lent: int = 1) -> None:
        self._cursor = cursor
        self._mixtures = deque(Mixture() for _ in range(lent))
        self._sweepable: set[int] = set()
        self.segments: tuple[int, ...] = ()

    def take_in(self, step: Step) -> None:
        """Let sweeps visit the rows of a new step from now on."""
        self.segments = (*step.fresh, *step.resident)
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)

    @property
    def has_all(self) -> bool:
        """Whether the cache holds all rows of the problem."""
        return sum(len(self._cursor.read(known)) for known in self.segments) == self._cursor.step.n_rows

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows in the cache."""
        return sum(int(self._cursor.read(known).row_bytes.sum()) for known in self.segments)

    def take_in_all(self) -> bool:
        """Let sweeps visit all segments from now on; return whether these hold all rows of the problem."""
        self._sweepable = set(self.segments)
        return self.has_all

    def windows(self, is_active: IsActive | None, rng: np.random.Generator) -> Iterator[Segment]:
        """Yield all rows once, in windows; with `is_active`, only the rows for which it returns True.

        A window is valid until `lent` more windows have been taken, and no longer than the step.
        """
        left = rng.permutation(np.array(sorted(self._sweepable), np.int64)).tolist()
        for _, rows in mixed(left, partial(self._pick, is_active), self._mixtures):
            yield rows

    def in_order(self) -> Iterator[Segment]:
        """Yield all rows once, segment by segment, in the order in which they came. They are valid during the step."""
        return map(self._cursor.read, sorted(self._sweepable))

    def _pick(self, is_active: IsActive | None, segment_id: int) -> tuple[Segment, Array | None] | None:
        if segment_id not in self._sweepable:
            return None  # repacked since the sweep began
        rows = self._cursor.read(segment_id)
        return rows, None if is_active is None else np.flatnonzero(is_active(rows.row_id)).astype(np.int32)

    def forget_active(self) -> None:
        """Do nothing: sweeps find active rows in the cache."""

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """Do nothing: active rows need no copy, since they stay in the cache."""

    def narrow(self) -> None:
        """Do nothing: sweeps over active rows always read the cache."""
