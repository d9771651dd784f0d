"""The trainer of one shard of a job's rows: it follows the orders of the coordinator, which the machine's agent brings.

    python -m streamsvm.trainer.distributed.shard RUN_DIRECTORY

The shard is trained as a whole problem, with C times sigma, the number of machines, and a w to which other shards
contribute (CoCoA+: Ma, Smith, Jaggi et al., "Adding vs. averaging in distributed primal-dual optimization", ICML 2015).
So alpha here is sigma times that of the whole problem, D the curvature that belongs to sigma times C, and so are all
sums over rows; messages have them divided by sigma. Then all machines agree on one step along the sum of their changes.
"""

import json
import pickle
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.files.arrays import open_array
from streamsvm.storage.machine.child import leave
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, used_bytes, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT, Packer
from streamsvm.storage.run.state import OWN_W_FILE, REAL, RUN_FILE
from streamsvm.trainer.distributed.messages import COUNTED, Activity, Change, Order, Report
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.requests import Request
from streamsvm.trainer.newton.scans import Interrupted, Scans
from streamsvm.trainer.newton.system import TooLarge
from streamsvm.trainer.problem.losses import KINDS, box_of
from streamsvm.trainer.problem.objective import half_squares
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.process import Trainer
from streamsvm.trainer.process import main as train
from streamsvm.trainer.updates.momentum import rate
from streamsvm.trainer.updates.statistics import LEAST_SLACK

# windows(is_active, rng) yields rows; is_active: ids (k,) -> which rows, (k,) bool
Windows = Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]]


class ActiveRowExport:
    """Call `some` until it exports no more rows, then `forget` them.

    score      (n_rows,) of the rows' last visits
    at_once    bytes that a call of `some` exports, unless one row is longer
    slowdowns  codes of storage.run.slowdowns, if a row was too long to be exported
    """

    def __init__(self, score: Array, at_once: int = 16 << 20) -> None:
        self._score, self._at_once = score, at_once
        self._rng = np.random.default_rng(0)  # windows in random order: if not all rows fit, each export has other rows
        self.slowdowns: Collection[str] = ()
        self.forget()

    def forget(self) -> None:
        """Forget the rows exported so far: the next export begins anew."""
        self._row_ids: list[Array] = []
        self._segments: Iterator[bytes] | None = None

    @property
    def row_ids(self) -> Array:
        """Ids of the rows exported so far."""
        return np.concatenate([np.empty(0, np.int64), *self._row_ids])

    def some(self, windows: Windows, most: int) -> tuple[tuple[bytes, ...], Array]:
        """Return the next segments of active rows, about `at_once` bytes, and their rows' ids; none after the last.

        All calls after `forget` together return at most `most` bytes; there is always room for one segment.
        """
        if self._segments is None:
            self._segments = self._fitting(most, self._packed(windows))
        segments: list[bytes] = []
        while sum(map(len, segments)) < self._at_once and (segment := next(self._segments, None)):
            segments.append(segment[: used_bytes(segment)])
        row_ids = [view(segment).row_id.astype(np.int64) for segment in segments]
        self._row_ids += row_ids
        return tuple(segments), np.concatenate([np.empty(0, np.int64), *row_ids])

    def _packed(self, windows: Windows) -> Iterator[bytes]:
        packer = Packer(SPILL_SEGMENT)
        for rows in windows(self._is_active, self._rng):
            yield from packer.add(rows, np.flatnonzero(self._is_active(rows.row_id)).astype(np.int32))
        yield from packer.rest()

    def _fitting(self, most: int, segments: Iterator[bytes]) -> Iterator[bytes]:
        """Yield segments of `most` bytes in all, or one usual segment; segments too long for the rest are left out."""
        left = max(most, SPILL_SEGMENT)
        while left >= SPILL_SEGMENT and (segment := next(segments, None)):
            if len(segment) <= left:
                left -= len(segment)
                yield segment
            else:
                self.slowdowns = {"pool_without_room"}

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= LEAST_SLACK


ORDER, REPORT = "order", "report"  # files of a run directory, which are there while nobody has taken them
_PART_ROWS = 1 << 16
_LESS = 1.0 - 2.0**-51  # a factor that makes up for rounding


def send(path: Path, message: Order | Report) -> None:
    """Write a message to this file, which appears as a whole. Raises OSError if there is no room."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        pickle.dump(message, file, pickle.HIGHEST_PROTOCOL)
    part.rename(path)


def take(path: Path) -> Any:
    """Return the message in this file, and remove the file: it may be large, and in memory."""
    with path.open("rb") as file:
        message = pickle.load(file)
    path.unlink()
    return message


def scaled(alpha: Array, sigma: float, tasks: Tasks, has_own_boxes: bool) -> Array:
    """Return alpha of the whole problem times sigma, for a trainer of these tasks; rounding does not break bounds."""
    found = np.asarray(alpha * sigma)
    if KINDS[tasks.loss].has_curvature:
        return found
    if has_own_boxes:
        return found * _LESS
    for task, column in zip(tasks.each, found.T, strict=False):
        np.clip(column, -task.C_positive, task.C_positive, out=column)
    return found


class ShardTrainer(Trainer):
    """`step` is one pass and the orders that follow it. There is nothing to print, and no checkpoint of its own.

    `shard` of the run file has `sigma`; `whole_steps`: the step of a round is 1, for D is no parabola along it that two
    numbers tell; `own_boxes`: rows have bounds of alpha of their own.
    """

    def __init__(self, run: Path, cache: CacheReader) -> None:
        super().__init__(run, cache)
        self._shared.limits = None  # the coordinator decides when training ends
        self._run, shape = run, self._w.shape
        about = json.loads((run / RUN_FILE).read_bytes())["shard"]
        self._sigma, self._has_whole_steps, self._has_own_boxes = (
            about[name] for name in ("sigma", "whole_steps", "own_boxes")
        )
        tasks, self._alpha = self._settings.tasks, self._state.alpha
        # D is used without whole steps alone: then both signs have one C, or D is 0. Columns without a task have C = 0.
        C = [min(task.C_positive, task.C_negative) for task in tasks.each]
        self._U, self._D = box_of(tasks.loss, np.pad(C, (0, tasks.width - len(C))))
        is_known = not (self._has_whole_steps and self._alpha.any())
        self._dual_error = np.full(tasks.count, 0.0 if is_known else np.nan)
        self._reader_own_w = open_array(run / OWN_W_FILE, REAL, shape, "r+")
        self._before, self._round_w = self._alpha.copy(), self._w.copy()  # with which the round began
        # The shard's part of w, and what was not reported of it: reports are rounded, the rest is reported later.
        self._part, self._untold, self._change = np.zeros((3, *shape))
        self._sent: Change | None = None
        self._export = ActiveRowExport(self._state.score)
        self._newton: OwnRows | None = None  # while Newton steps are made
        self._began = time.monotonic()
        self._follow(self._report(None, own_w=self._w / self._sigma))

    def step(self) -> dict[str, Any]:
        progress = next(self._passes)
        self._shared.show(progress)
        self._state.control["finished_passes"] = progress.pass_
        self._shared.publish(self._w)  # which is finite, then
        np.subtract(self._w, self._round_w, out=self._change)
        self._change /= self._sigma
        self._follow(self._report(Activity.TRAIN, change=Change.of(self._untold + self._change)))
        return {}

    def shutdown(self) -> None:
        self._passes.close()
        self._state.control["training_done"] = 1

    def results(self) -> list[dict]:
        return []

    def _follow(self, report: Report) -> None:
        """Send the report, and follow orders until one says to train, or to end."""
        while (order := self._exchange(report)).work not in (Activity.TRAIN, Activity.END):
            report = self._made(order)
        self._cursor.most_sweeps = order.most_sweeps or inf
        if order.work is Activity.END:
            self.stop_reason = "stopped"

    def _exchange(self, report: Report) -> Order:
        """Send the report; return the next order, once alpha and w are what it says."""
        try:
            send(self._run / REPORT, report)
        except OSError:
            if report.newton is None:
                raise
            send(self._run / REPORT, replace(report, newton=b""))
        self._shared.wait_until((self._run / ORDER).exists)
        self._began = time.monotonic()
        order: Order = take(self._run / ORDER)
        if order.newton is None:
            self._take_over(order)
        return order

    def _take_over(self, order: Order) -> None:
        if self._newton:
            self._newton = None
            self._before[:] = self._alpha
        if self._sent is not None:
            self._take_step(self._sent, order.step)
            self._sent = None
        if order.alpha is not None:
            tasks = self._settings.tasks
            self._alpha[self._export.row_ids] = scaled(order.alpha, self._sigma, tasks, self._has_own_boxes)
            self._before[:] = self._alpha
        if order.work is not Activity.GIVE:
            self._export.forget()  # if this machine was late, its exported rows have not been used
        if order.w is not None:
            self._round_w[:] = order.w
        elif order.change is not None:
            order.change.add_to(self._round_w, self._along_axis(order.step))
        self._w[:] = self._shared.scratch_w[:] = self._round_w
        self._state.lanes["converged_by"][: len(order.converged)] = order.converged

    def _take_step(self, sent: Change, step: Array) -> None:
        """Set alpha to before + step (alpha - before), and the shard's part of w to the w of this alpha."""
        step = self._along_axis(step)
        self._change *= step
        self._part += self._change
        self._untold += self._change
        sent.add_to(self._untold, -step)
        for start in range(0, len(self._alpha), _PART_ROWS):
            part = slice(start, start + _PART_ROWS)
            now, before = self._alpha[part], self._before[part]
            # An alpha that has not changed, at a bound or elsewhere, stays the same to the bit.
            now[:] = np.where(now == before, now, np.where(step == 1.0, now, before + step * (now - before)))
        self._before[:] = self._alpha

    def _along_axis(self, step: Array) -> Array:
        every = np.zeros(self._w.shape[1])
        every[: len(step)] = step
        return every

    def _made(self, order: Order) -> Report:
        """Do the work that is ordered between two rounds; return the report on it."""
        training, work = self._cursor.training, order.work
        if work is Activity.LOOK:
            self._shared.certify(self._w)
            return self._report(work, own_w=self._reader_own_w / self._sigma)
        if work is Activity.GIVE:
            segments, ids = self._export.some(training.windows, order.most_bytes)
            self._shared.slow_down(self._export.slowdowns)
            return self._report(work, segments=segments, alpha=self._alpha[ids] / self._sigma)
        if order.newton is None:
            return self._report(work, own_w=self._part.copy(), newton=b"")
        reply = b""
        with suppress(Interrupted):
            if (store := training.store()) is not None:
                request: Request = pickle.loads(order.newton)
                if request.begins or self._newton is None:
                    settings, going = self._settings, self._shared.uninterrupted
                    scans = Scans(store, len(self._alpha), settings.visited, training.threads, going)
                    self._newton = OwnRows(settings.tasks, scans, self._alpha, settings.width)
                reply = answered(self._newton, request, self._sigma)
        return self._report(work, newton=reply)

    def _report(self, work: Activity | None, **about: Any) -> Report:
        """Return the report on this work, with the fields `about`; the other fields are computed here."""
        lanes = self._state.lanes[: self._settings.tasks.count]
        if about.get("own_w") is not None:
            self._part[:], self._untold[:] = about["own_w"], 0.0
        self._sent = about.get("change")
        training, has_looked, losses = self._cursor.training, work is Activity.LOOK, None
        if work not in (Activity.GIVE, Activity.NEWTON):
            self._sums = self._add_up()[:, : len(lanes)]
        dual, linear, square, free = self._sums
        if has_looked:
            losses = (lanes["final_primal_objective"] - half_squares(self._w, len(self._D))[: len(lanes)]) / self._sigma
            if self._has_whole_steps:
                own = half_squares(self._reader_own_w, len(self._D))
                self._dual_error = dual - lanes["final_dual_objective"] - own[: len(lanes)]
        gaps: list[Array] = []
        if work is Activity.TRAIN:
            gaps, training.sweeps.gaps = training.sweeps.gaps, []
        unknown, control = np.full(len(lanes), np.nan), self._state.control
        has_all = training is not None and training.store() is not None
        return Report(
            work=work,
            dual=(dual - self._dual_error) / self._sigma,
            linear=linear / self._sigma,
            square=square / self._sigma,
            gap=gaps[0][: len(lanes)] / self._sigma if gaps else unknown,
            rate=np.array([rate(each) for each in np.array(gaps).T[: len(lanes)].tolist()]) if gaps[1:] else unknown,
            M_plus=lanes["final_M_plus" if has_looked else "M_plus"].copy(),
            M_minus=lanes["final_M_minus" if has_looked else "M_minus"].copy(),
            losses=losses,
            counts={
                **{name: control[name] for name in (*COUNTED, "slowdowns", "sweeps_made")},
                "free_rows": float(free.max()),
                "newton_equations": (self._settings.newton_equations or 0) if has_all else -1,
            },
            seconds=time.monotonic() - self._began,
            **about,
        )

    def _add_up(self) -> Array:
        """Return `dual`, `linear` and `square` of a report, times sigma, and the number of free rows: (4, width)."""
        before, now, (curvature, free) = self._before, self._alpha, np.zeros((2, len(self._D)))
        sums = np.zeros((6, len(self._D)))
        for start in range(0, len(before), _PART_ROWS):
            old, new = before[start : start + _PART_ROWS], now[start : start + _PART_ROWS]
            change = new - old
            free_rows = ((new > 0.0) & (new < self._U)).sum(axis=0)
            of_alpha = old.sum(axis=0), (old * old).sum(axis=0)
            sums += *of_alpha, change.sum(axis=0), (old * change).sum(axis=0), (change * change).sum(axis=0), free_rows
        total, squares, changed, mixed, changed_squares, between = sums
        if not self._has_whole_steps:
            D = self._D
            return np.array([total - D * squares / 2.0, changed - D * mixed, D * changed_squares, between])
        if self._cursor.training is not None:
            curvature, free = self._cursor.training.statistics.of_alpha
        return np.array([total + changed - curvature, 0.0 * total, 0.0 * total, free])


def answered(rows: OwnRows, request: Request, sigma: float) -> bytes:
    """Return the pickled Reply of a shard's rows, divided by sigma, or TooLarge if a system is. Raises Interrupted."""
    try:
        return pickle.dumps(rows.answer(request).divided(sigma), pickle.HIGHEST_PROTOCOL)
    except TooLarge as error:
        return pickle.dumps(error)


def main(directory: str) -> None:
    """Run the process: train a shard in the run directory `directory`."""
    train(directory, ShardTrainer)


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
