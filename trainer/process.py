"""The trainer process: coordinate updates on what the cache holds. Never writes to the cache.

    python -m trainer.process RUN_DIRECTORY

Prints a JSON object a line: one for each pass, then one with the key `result`.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from storage.cache import CacheReader
from storage.checkpoint import open_checkpoint
from storage.child import die_with_parent, leave
from storage.csr import Array
from storage.failure import telling
from storage.naps import nap
from storage.state import CACHE_FILE, KEPT_ARRAYS, State, open_state
from trainer.checkpoints import RESIDENTS, Slots
from trainer.link import HandedBack, Link
from trainer.progress import Progress
from trainer.solvers import SOLVERS, MakeLink, Solver, make_cursor, make_source, read_settings
from trainer.stop import CONVERGED, has_likely_fallen, stop_reason
from trainer.tally import warm_tally

_SWITCH_SECONDS = 1e-4
NOT_IN_HISTORY = {"is_worth_a_look"}  # of what a solver tells


class Trainer:
    """`step` is one pass. The cache must hold its first step already."""

    def __init__(
        self,
        run: Path,
        cache: CacheReader,
        make_link: MakeLink = Link,
        solvers: Mapping[str, Solver] = SOLVERS,
    ) -> None:
        self._settings = read_settings(run)
        self._state = open_state(run, self._settings.n_rows, self._settings.width)
        # Private memory, not a mapping: the kernel jumps about in w, and huge pages make that cheaper.
        self._w = np.zeros(self._settings.width)
        settings = self._settings
        self.stop_reason: str | None = None
        self._is_certified = False
        kept, number = self._resume(settings.resume)
        slots = Slots(run, settings.checkpoints, settings.checkpoint_seconds, number)
        self._cursor = make_cursor(cache, self._state, settings, make_link, slots, kept)
        self._link = self._cursor.link
        self._solver = solvers[settings.solver]
        source = make_source(self._cursor, settings)
        self._passes = self._solver.train(settings.problem, settings, source, self._state.alpha, self._w)

    def _resume(self, path: str | None) -> tuple[Mapping[str, Array], int]:
        """Take w from the checkpoint; what else it has for the trainer, and its number.

        Sets `stop_reason` if this job had ended, and died before its model was there.
        """
        if path is None and self._settings.follows:
            # All is zero, and its length a bound that memory has no room for: it must not be touched.
            return {}, 0
        if path is None:
            self._w[:] = self._state.w
            return warm_tally(self._settings.problem, self._state.alpha), 0
        checkpoint = open_checkpoint(Path(path))
        ended = checkpoint.about["ended"] or {}
        if ended == self._ended(ended.get("reason")):
            self.stop_reason = ended["reason"]
        w = checkpoint["w"]
        self._w[: len(w)] = w
        own = set(checkpoint.names) - {*KEPT_ARRAYS, *RESIDENTS, "w", "published"}
        return {name: checkpoint[name] for name in own}, checkpoint.about["number"]

    def step(self) -> dict:
        """Train for one pass and report it; sets `stop_reason` if it was the last."""
        before = self._found()
        self._state.control["sweeps"] = 0
        progress = next(self._passes)
        self._is_certified = False
        self._show(progress)
        settings = self._settings
        elapsed = self._link.elapsed_seconds
        limits = settings.max_passes, settings.max_seconds is not None and elapsed >= settings.max_seconds
        self.stop_reason = stop_reason(progress, settings.tolerance, settings.relative_gap, *limits)
        if self.stop_reason in CONVERGED or self._is_worth_a_look(progress, before):
            self.stop_reason = self._certified(self.stop_reason) or stop_reason(progress, None, None, *limits)
        if self.stop_reason is None and self._state.control["stop"]:
            self.stop_reason = "stopped"
        return _report(progress, self._state, elapsed)

    def shutdown(self) -> None:
        """Keep what there is, so that the job can be continued, and have the final w certified."""
        self._cursor.make_checkpoint(self._w, self._ended(self.stop_reason))
        self._passes.close()
        if not self._is_certified:
            self._certify()
        self._state.control["training_done"] = 1

    def _ended(self, reason: str | None) -> dict[str, Any]:
        """Why, by which rules, and of which job: one that continues it, or has other rules, goes on."""
        settings = self._settings
        rules = settings.tolerance, settings.relative_gap, settings.max_passes, settings.max_seconds
        job = Path(settings.checkpoints or "").name
        return {"reason": reason, "rules": list(rules), "job": job}

    def result(self) -> dict:
        """What came out, once the reader has certified it."""
        control = self._state.control
        primal, dual = control["final_primal_objective"], control["final_dual_objective"]
        M_plus, M_minus, w_error = control["final_M_plus"], control["final_M_minus"], control["final_w_error"]
        if not self._solver.is_dual:
            # alpha is not what it trained: its own lower bound stands, and there are no gradients.
            dual, M_plus, M_minus, w_error = control["dual_objective"], nan, nan, nan
        return {
            "converged": self.stop_reason in CONVERGED,
            "stop_reason": self.stop_reason,
            "passes": control["finished_passes"],
            "certificate": {
                "m_plus": M_plus,
                "m_minus": M_minus,
                "gap": M_plus - M_minus,
                "primal_objective": primal,
                "dual_objective": dual,
                "relative_duality_gap": (primal - dual) / primal,
                "w_error": w_error,
            },
        }

    def _certified(self, reason: str | None) -> str | None:
        """Whether all rows at one w agree that training has converged: a reason of CONVERGED, or None.

        A pass meets its rows at a moving w and leaves screened ones out, and its bound on the gap is that of the best w
        so far. The gradients of a solver that does not train alpha are its own affair.
        """
        settings = self._settings
        if reason == "tolerance" and not self._solver.is_dual:
            return reason
        self._certify()
        certificate = self.result()["certificate"]
        if self._solver.is_dual and settings.tolerance is not None and certificate["gap"] <= settings.tolerance:
            return "tolerance"
        if settings.relative_gap is not None and certificate["relative_duality_gap"] <= settings.relative_gap:
            return "relative_gap"
        return None

    def _found(self) -> tuple[float, float]:
        """M+ - M- and the relative gap as of the last pass, one before a crash too; 0 if there was none."""
        control = self._state.control
        primal = control["primal_bound"]
        return control["M_plus"] - control["M_minus"], (primal - control["dual_objective"]) / primal if primal else 0.0

    def _is_worth_a_look(self, progress: Progress, before: tuple[float, float]) -> bool:
        """Whether all rows should be looked at, at the w of now, rather than in a pass to find out."""
        if progress.is_worth_a_look:
            return True
        settings = self._settings
        tolerance = None if self._state.control["rows_unvisited"] else settings.tolerance
        wanted = tolerance, settings.relative_gap
        return self._solver.is_dual and any(map(has_likely_fallen, before, self._found(), wanted))

    def _certify(self) -> None:
        """Have w certified."""
        self._is_certified = True
        self._link.certify(self._w)

    def _show(self, progress: Progress) -> None:
        control = self._state.control
        for name in ("updates", "M_plus", "M_minus", "rows_unvisited", "dual_objective", "primal_bound", "free_rows"):
            control[name] = getattr(progress, name)
        control["finished_passes"] = progress.pass_


def _report(progress: Progress, state: State, elapsed: float) -> dict:
    fields = {name.rstrip("_").lower(): value for name, value in asdict(progress).items() if name not in NOT_IN_HISTORY}
    reader = ("rows_streamed", "rows_screened", "resident_rows", "resident_bytes", "evicted_rows")
    waits = ("reader_wait_seconds", "trainer_wait_seconds")
    return {
        **fields,
        "gap": progress.gap,
        "relative_gap_bound": progress.relative_gap_bound,
        **{name: state.control[name] for name in (*reader, *waits)},
        "elapsed_seconds": elapsed,
    }


def main(directory: str) -> None:
    """Body of the process."""
    die_with_parent()
    # A thread that comes back from a kernel would else wait five milliseconds for its turn.
    sys.setswitchinterval(_SWITCH_SECONDS)
    run = Path(directory)
    with telling(run):
        _train(run)


def _train(run: Path) -> None:
    settings = read_settings(run)
    control = open_state(run, settings.n_rows, settings.width).control
    began = time.perf_counter()
    while not control["committed_step"]:
        control["trainer_heartbeat"] = time.monotonic()
        nap(began)
    cache = CacheReader.open(run / CACHE_FILE, settings.cache.cache_bytes)
    trainer = Trainer(run, cache)
    try:
        while trainer.stop_reason is None:
            print(json.dumps(trainer.step()), flush=True)
    except HandedBack:
        sys.exit(HandedBack.exit_code)
    trainer.shutdown()
    print(json.dumps({"result": trainer.result()}), flush=True)
    cache.close()


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
