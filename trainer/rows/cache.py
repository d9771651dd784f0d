"""The cache, a step of the reader's at a time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from storage.cache import CacheReader, Step
from storage.csr import Array
from storage.segment import Segment
from trainer.checkpoints import Checkpoints, resident_rows
from trainer.link import HandedBack, Link


class Cursor:
    """Moves on from step to step; between two sections it makes checkpoints, and ends if the worker has to."""

    def __init__(self, cache: CacheReader, link: Link, checkpoints: Checkpoints) -> None:
        self.link = link
        self.checkpoints = checkpoints
        self._cache = cache
        self._step: Step | None = None
        self._repeated = 0  # passes without the reader

    @property
    def step(self) -> Step:
        """The one `next` or `repeat` returned last."""
        assert self._step is not None
        return self._step

    @property
    def is_next_ready(self) -> bool:
        """Whether `next` would return at once."""
        return self.link.has_committed(1 + (self._step.number if self._step else 0))

    def next(self) -> Step:
        """Move on to the next step, waiting for it if need be."""
        self.link.control["trainer_wait_seconds"] += self.link.wait_until(lambda: self.is_next_ready)
        step = self._cache.renew()
        self._step = replace(step, pass_=step.pass_ + self._repeated)
        self.link.begin_step(self._step, step.pass_)
        self.link.control["started_step"] = step.number
        return self._step

    def skip_pass(self) -> Step:
        """All rows are at hand without the reader: the running step ends a pass as it is."""
        self._step = replace(self.step, ends_pass=True, ends_section=True)
        return self._step

    def repeat(self, w: Array) -> Step:
        """The same step once more, as the next pass."""
        self._pause(w)
        self._step = replace(self.step, pass_=self.step.pass_ + 1)
        self._repeated += 1
        self.link.begin_step(self._step, self._step.pass_)
        return self._step

    def read(self, segment_id: int) -> Segment:
        """A segment of the step, valid until `next`."""
        return self._cache.read(segment_id)

    def end_section(self, w: Array) -> None:
        """All that was to be done in a section has been done: the reader may begin the next.

        At the end of a pass `w` is published: the coming pass is certified at it.
        """
        self.link.hand_over()
        if self.step.ends_pass:
            self.link.publish(w)
        self._pause(w)
        self.link.control["finished_section"] = self.step.number

    def make_checkpoint(self, w: Array, ended: Mapping[str, Any] | None = None) -> None:
        """Of the section that has just been done with, see Checkpoints.make."""
        if self._step is not None:
            self.link.hand_over()
            self.checkpoints.make(self._step, w, self._residents, ended)

    def _residents(self) -> dict[str, Array]:
        # In the order of their ids.
        return resident_rows([self.read(number) for number in sorted((*self.step.fresh, *self.step.resident))])

    def _pause(self, w: Array) -> None:
        """Between two sections: make a checkpoint if it is time, and end if asked to."""
        if self.link.hands_back or self.checkpoints.is_due(self.step.ends_pass):
            self.make_checkpoint(w)
        if self.link.hands_back:
            raise HandedBack
