"""When and what a trainer keeps, so that the job can go on from there after a crash."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.cache import Step
from storage.checkpoint import UNSURE_SLOT, older_slot, write_checkpoint
from storage.csr import Array
from storage.state import KEPT, KEPT_ARRAYS, State

# Writing may take this share of the time: a pass may be over in milliseconds.
_SHARE = 0.05


class Checkpoints:
    """In the slots of `directory`; None: nothing is kept.

    run       the attempt's own directory: once the worker has taken it away, what this process knows is of the past
    number    of the last one made
    seconds   longest time between two, as far as sections allow
    is_exact  training is to go on from the very place, with the cache as it is, else from the start of the pass
    """

    def __init__(self, run: Path, directory: str | None, seconds: float, number: int, is_exact: bool) -> None:
        self.is_exact = is_exact
        self._run = run
        self._directory = directory and Path(directory)
        self._seconds = seconds
        self._number = number
        self._last = time.monotonic()
        self._cost = 0.0
        self.failures = 0

    def is_due(self, ends_pass: bool) -> bool:
        """Whether to make one at the end of a section, which may be that of a pass."""
        if not self._directory:
            return False
        passed = time.monotonic() - self._last
        return passed >= self._seconds or (ends_pass and passed * _SHARE >= self._cost)

    def make(self, about: Mapping[str, Any], arrays: Mapping[str, Array], is_sure: bool = True) -> None:
        """Write the next. If that fails, the last one stands and training goes on: there may be room the next time.

        is_sure   not made from a checkpoint whose weights are yet to be compared with its alpha
        """
        if not self._directory or not self._run.exists():
            return
        began = time.monotonic()
        try:
            number, unsure = self._number + 1, self._directory / UNSURE_SLOT
            write_checkpoint(older_slot(self._directory) if is_sure else unsure, {**about, "number": number}, arrays)
            self._number = number
            if is_sure:
                unsure.unlink(missing_ok=True)
        except OSError:
            self.failures += 1
        self._last = time.monotonic()
        self._cost = self._last - began


def contents(step: Step, state: State, w: Array, is_exact: bool) -> tuple[dict[str, Any], dict[str, Array]]:
    """What there is of a job at the end of the section that `step` ends; the reader waits.

    `is_exact`: training is to go on from this very place, else with the pass's start, whose w is then this one.
    """
    place = (step.pass_ + 1, 0) if step.ends_pass else (step.pass_, step.pieces if is_exact else 0)
    about = {
        "pass": place[0],
        "pieces": place[1],
        "pass_losses": step.pass_losses,
        "screened_unvisited": step.screened_unvisited,
        "control": {name: state.control[name] for name in KEPT},
    }
    arrays = {"w": w[: step.width]}
    if place[1]:
        arrays["published"] = state.w[: step.width]
    rows = {name: getattr(state, name)[: step.n_rows] for name in KEPT_ARRAYS}
    return about, {**arrays, **rows}
