"""The trainer process: makes coordinate updates on the rows in the cache. It never writes to the cache.

    python -m streamsvm.trainer.process RUN_DIRECTORY

Prints JSON objects, one a line: the report of each pass, then {"result": [the result of each lane]}.
"""

import re
import sys
import time
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

from streamsvm.storage.machine.child import die_with_parent, keep_freed_memory, leave
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.checkpoint import open_checkpoint
from streamsvm.storage.run.failure import telling
from streamsvm.storage.run.slowdowns import told
from streamsvm.storage.run.state import (
    CACHE_FILE,
    KEPT_ARRAYS,
    State,
    backoff_sleep,
    open_state,
    telling_compiling,
    zeros,
)
from streamsvm.trainer.checkpoints import RESIDENTS, CheckpointSlots
from streamsvm.trainer.report import report, write_line
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import HandedBack, SharedState
from streamsvm.trainer.solvers import SOLVERS, MakeShared, Solver, make_cursor, make_source, read_settings
from streamsvm.trainer.updates.convergence import Convergence
from streamsvm.trainer.updates.limits import Ended, JobLimits
from streamsvm.trainer.updates.statistics import warm_statistics

_SWITCH_SECONDS = 1e-4


class Trainer:
    """Call `step`, one pass each, until `stop_reason` is set, then `shutdown`. The cache must already hold a step."""

    def __init__(
        self,
        run: Path,
        cache: CacheReader,
        make_shared: MakeShared = SharedState,
        solvers: Mapping[str, Solver] = SOLVERS,
    ) -> None:
        self._settings = read_settings(run)
        self._state = _open_state(run, self._settings)
        # Private memory, not a mapping: the kernel jumps about in w, and huge pages make that cheaper.
        self._w = zeros(*self._state.w.shape)
        settings = self._settings
        self._solver = solvers[settings.solver]
        self._convergence = Convergence(self._state, settings, self._solver.is_dual)
        self.stop_reason: str | None = None
        self._is_certified = False
        self._told = 0  # bits of the control page's slowdowns that a report has named
        kept, number = self._resume(settings.resume)
        slots = CheckpointSlots(run, settings.checkpoints, settings.checkpoint_seconds, number)
        self._cursor = make_cursor(cache, self._state, settings, make_shared, slots, kept)
        self._shared = self._cursor.shared
        self._cursor.model.settle(self._shared.has_converged, self.stop_reason is not None)
        spares_first = settings.follows or settings.shares_time
        self._shared.limits = JobLimits(
            self._state.control, lambda: self._shared.elapsed_seconds, settings.max_seconds, spares_first
        )
        self._passes = self._solver.train(settings, make_source(self._cursor, settings), self._state.alpha, self._w)

    def _resume(self, path: str | None) -> tuple[Mapping[str, Array], int]:
        """Set w, from the checkpoint if `path` is not None; return the solver's arrays in it, and its number.

        Sets `stop_reason` if training with these targets had already ended, and a crash came before the model was made.
        """
        if path is None and self._settings.follows:
            # The number of features is not known yet, so the state's w is as long as it may ever be. It is zero,
            # and a copy would fill memory.
            return {}, 0
        if path is None:
            self._w[:] = self._state.w
            return warm_statistics(self._settings.tasks, self._state.alpha), 0
        checkpoint = open_checkpoint(Path(path))
        ended = checkpoint.about["ended"] or {}
        if ended:
            ended = {**ended, "job": _job_of(ended["job"])}
        as_now = self._ended(ended.get("reason"))
        if ended == as_now:
            self.stop_reason = ended["reason"]
            self._convergence.restore(self.stop_reason)
        elif ended and (ended["rules"][:2] != as_now["rules"][:2] or self._convergence.reason):
            self._convergence.forget()  # the targets have changed, or a job continues one that had converged
        w = checkpoint["w"]
        self._w[: len(w)] = w
        own = set(checkpoint.names) - {*KEPT_ARRAYS, *RESIDENTS, "w", "published", "lanes"}
        return {name: checkpoint[name] for name in own}, checkpoint.about["number"]

    def step(self) -> dict | None:
        """Train for one pass and return its report; None if the job ended within it. Sets `stop_reason` at the end."""
        before = self._convergence.figures()
        self._state.control["sweeps"] = 0
        try:
            progress = next(self._passes)
        except Ended:
            self._end_within()
            return None
        self._is_certified = False
        self._shared.show(progress)
        self._state.control["finished_passes"] = progress.pass_
        elapsed = self._shared.elapsed_seconds
        if self._convergence.is_worth_a_look(progress, before):
            if self._convergence.needs_certificate(progress):
                self._certify()
            self._convergence.decide(progress, self._is_certified)
        self.stop_reason = self._convergence.stop_reason(progress.pass_, elapsed)
        self._cursor.model.settle(self._shared.has_converged, self.stop_reason is not None)
        before_this, self._told = self._told, int(self._state.control["slowdowns"])
        return report(progress, self._settings, self._state, elapsed, told(self._told & ~before_this))

    def _end_within(self) -> None:
        """Set `stop_reason` for a job that ended within a pass, and tell the reader to bring no more of the pass."""
        control = self._state.control
        assert self._shared.limits is not None
        self.stop_reason = self._shared.limits.reason
        self._is_certified = False
        control["ending"] = 1
        self._cursor.leave_pass()
        control["elapsed_seconds"] = self._shared.elapsed_seconds
        if self._solver.has_kernel:
            control["dual_objective"] = nan

    def shutdown(self) -> None:
        """End training: make a checkpoint, from which the job can be continued, and have the final w certified."""
        self._cursor.make_checkpoint(self._w, self._ended(self.stop_reason))
        self._passes.close()
        if not self._is_certified:
            self._certify()
        if self._cursor.model.take_better(self._shared.certified_primal):
            self._certify()
        self._state.control["training_done"] = 1

    def _ended(self, reason: str | None) -> dict[str, Any]:
        """Return why and by which rules the job ended, and its name: a job that differs in these trains further."""
        settings = self._settings
        rules = settings.tolerance, settings.relative_gap, settings.max_passes, settings.max_seconds
        return {"reason": reason, "rules": list(rules), "job": _job_of(settings.checkpoints)}

    def results(self) -> list[dict]:
        """Return the result of each lane. Call it after `shutdown`, when the reader has certified the lanes."""
        return self._convergence.results(self.stop_reason)

    def _certify(self) -> None:
        """Have the reader certify the present w or, where models get another w for some tasks, w with those columns."""
        self._is_certified = True
        columns = self._cursor.model.columns()
        if not columns or self._state.control["w_unverified"]:
            self._shared.certify(self._w)  # the reader compares a checkpoint's w with the w of its alpha
        if columns:
            self._shared.certify(self._w, columns)


def _job_of(checkpoints: str | None) -> str | None:
    """Return the name of a job's directory from its checkpoints' path, or from a name: paths change when data move."""
    return checkpoints and re.sub(r"/lanes/\d+$", "", checkpoints).rpartition("/")[2]


def _open_state(run: Path, settings: TrainerSettings) -> State:
    return open_state(run, settings.n_rows, settings.width, settings.tasks.width)


def main(directory: str, make: type[Trainer] = Trainer) -> None:
    """Run the process: train in the run directory `directory` with a trainer of the class `make`."""
    die_with_parent()
    keep_freed_memory()
    # A thread that comes back from a kernel would else wait five milliseconds for its turn.
    sys.setswitchinterval(_SWITCH_SECONDS)
    run = Path(directory)
    with telling(run), telling_compiling(run, "trainer"):
        _train(run, make)


def _train(run: Path, make: "type[Trainer]") -> None:
    settings = read_settings(run)
    control = _open_state(run, settings).control
    began = time.perf_counter()
    while not control["committed_step"]:
        control["trainer_heartbeat"] = time.monotonic()
        backoff_sleep(began)
    cache = CacheReader.open(run / CACHE_FILE, settings.cache.cache_bytes)
    trainer = make(run, cache)
    try:
        while trainer.stop_reason is None:
            if (told := trainer.step()) is not None:
                write_line(told)
    except HandedBack:
        sys.exit(HandedBack.exit_code)
    trainer.shutdown()
    write_line({"result": trainer.results()})
    cache.close()


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
