"""Makes a trainer's checkpoints: when one is due, and with which arrays, so that the job can go on after a crash."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.features.weighing import with_bias_last
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.checkpoint import UNSURE_SLOT, older_slot, write_checkpoint
from streamsvm.storage.run.state import KEPT, KEPT_ARRAYS, State

# Share of the time that checkpoints at the end of passes may take: a pass may be over in milliseconds.
_SHARE = 0.05
# Names of a checkpoint's arrays: number of rows of each cached segment; ids of the rows; number of values of each row.
RESIDENTS = ("segment_rows", "resident_row_id", "resident_nnz")
_OF_FEATURES = re.compile("w|(newton|model)_w_[0-9]+")  # names of arrays that have a line for each feature
_NO_IDS = np.empty(0, np.int32)
_ROUNDING = 1e-12  # share of the largest alpha: by rounding, the alpha of a row's classes may add up to a little more


class OutOfBox(Exception):
    """Some alpha is outside its box, so that neither the dual objective D nor a checkpoint of alpha would be valid."""


class CheckpointSlots:
    """Writes checkpoints to two files in turn: the newest sound one is never overwritten.

    run        directory of the attempt: after the worker has removed it, this process writes no more checkpoints
    directory  where checkpoints go; None: the run makes none
    seconds    time between two checkpoints, at least; the next is due at the first end of a section after it
    number     number of the newest checkpoint
    """

    def __init__(
        self,
        run: Path,
        directory: str | None,
        seconds: float,
        number: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._directory = directory and Path(directory)
        self._seconds = seconds
        self._number = number
        self._clock = clock
        self._last = clock()
        self._cost = 0.0
        self.failures = 0

    def is_due(self, ends_pass: bool) -> bool:
        """Whether a checkpoint is due at the end of a section; `ends_pass`: the section also ends a pass."""
        if not self._directory:
            return False
        passed = self._clock() - self._last
        return passed >= self._seconds or (ends_pass and passed * _SHARE >= self._cost)

    def write(self, about: Mapping[str, Any], arrays: Mapping[str, Array], is_sure: bool) -> None:
        """Write a checkpoint. If writing fails, the last checkpoint remains, and training goes on.

        is_sure   False if the run goes on from a checkpoint whose w has not been compared with its alpha yet
        """
        if not self._directory or not self._run.exists():
            return
        began = self._clock()
        try:
            number, unsure = self._number + 1, self._directory / UNSURE_SLOT
            write_checkpoint(older_slot(self._directory) if is_sure else unsure, {**about, "number": number}, arrays)
            self._number = number
            if is_sure:
                unsure.unlink(missing_ok=True)
        except OSError:
            self.failures += 1
        self._last = self._clock()
        self._cost = self._last - began


class Checkpoints:
    """Makes the checkpoints of one attempt at a job.

    largest   upper bound of all alpha; the lower bound is 0 or, if is_signed (regression, joint classes), -largest
    is_exact  a checkpoint also lists the cached rows, and a job goes on at its section; else at the start of its pass
    follows   the first pass is over a dataset that is being read in: within it no checkpoint is made
    bias_first  the constant feature comes first in the run's arrays of features; in checkpoints it is the last
    kept      the solver's arrays in the checkpoint that the run goes on from; empty once the solver has called `keep`
    """

    def __init__(
        self,
        slots: CheckpointSlots,
        state: State,
        largest: float = np.inf,
        is_signed: bool = False,
        is_exact: bool = False,
        follows: bool = False,
        bias_first: bool = False,
        kept: Mapping[str, Array] = EMPTY,
    ) -> None:
        self._slots = slots
        self._state = state
        largest *= 1.0 + _ROUNDING
        self._box = (-largest if is_signed else 0.0, largest)
        self._is_exact = is_exact
        self._follows, self._bias_first = follows, bias_first
        self._resumable: Callable[[], Mapping[str, Array]] | None = None  # None: the solver has not begun
        self._sections = True
        self.kept = kept

    def keep(self, resumable: Callable[[], Mapping[str, Array]], sections: bool = True) -> None:
        """Put the arrays that `resumable` returns into each checkpoint. A solver that goes on finds them in `kept`.

        sections  False: make checkpoints at the end of passes only, for a solver that cannot go on from within one
        """
        self._resumable, self._sections = resumable, sections
        self.kept = EMPTY

    def is_due(self, ends_pass: bool) -> bool:
        """Whether a checkpoint is due, see CheckpointSlots.is_due."""
        return self._slots.is_due(ends_pass)

    def make(
        self, step: Step, w: Array, residents: Callable[[], dict[str, Array]], ended: Mapping[str, Any] | None = None
    ) -> None:
        """Make a checkpoint at the end of a section, if the solver can go on from there.

        residents  returns the arrays that list the cached rows, see `resident_rows`
        ended      why and by which rules training has ended; None: training goes on
        """
        if self._resumable is None:
            return
        is_following = self._follows and step.pass_ == 1
        if not step.ends_pass and (is_following or not self._sections):
            return
        about, arrays = self._contents(step, w)
        own = residents() if self._is_exact else {}
        is_sure = not self._state.control["w_unverified"]
        arrays = {**arrays, **own, **self._resumable()}
        if self._bias_first:
            arrays |= {name: with_bias_last(array) for name, array in arrays.items() if _OF_FEATURES.fullmatch(name)}
        self._slots.write({**about, "ended": ended}, arrays, is_sure)
        self._state.control["checkpoint_failures"] = self._slots.failures

    def make_within(self, step: Step, w: Array) -> None:
        """Make a checkpoint within a section if one is due. A job goes on from it at the start of the pass."""
        if not self._is_exact and self._slots.is_due(ends_pass=False):
            self.make(replace(step, ends_pass=False), w, dict)

    def _contents(self, step: Step, w: Array) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return `about` and arrays of a checkpoint at the end of the section that `step` ends. The reader waits."""
        self._check(self._state.alpha[: step.n_rows])
        place = (step.pass_ + 1, 0) if step.ends_pass else (step.pass_, step.pieces if self._is_exact else 0)
        about = {
            "pass": place[0],
            "pieces": place[1],
            "pass_losses": step.pass_losses,
            "screened_unvisited": step.screened_unvisited,
            "control": {name: self._state.control[name] for name in KEPT},
        }
        arrays = {"w": w[: step.width]}
        if self._state.w.shape[1] > 1:
            arrays["lanes"] = self._state.lanes
        if place[1]:
            arrays["published"] = self._state.w[: step.width]
        rows = {name: getattr(self._state, name)[: step.n_rows] for name in KEPT_ARRAYS}
        return about, {**arrays, **rows}

    def _check(self, alpha: Array) -> None:
        lowest, highest = self._box
        least, most = alpha.min(initial=lowest), alpha.max(initial=highest)
        if np.isnan(least):
            raise ValuesOverflow("the dual variables")
        if not (least >= lowest and most <= highest):
            raise OutOfBox(f"alpha lies in {alpha.min():g} .. {alpha.max():g}, its box is {lowest:g} .. {highest:g}")


def resident_rows(segments: list[Segment]) -> dict[str, Array]:
    """Return the arrays, named by RESIDENTS, that list the rows of these segments in a checkpoint."""
    lengths = [np.diff(rows.indptr) for rows in segments]
    columns = (
        np.array([len(rows) for rows in segments], np.int64),
        np.concatenate([_NO_IDS, *(rows.row_id for rows in segments)], dtype=np.int32),
        np.concatenate([_NO_IDS, *lengths], dtype=np.int32),
    )
    return dict(zip(RESIDENTS, columns, strict=True))
