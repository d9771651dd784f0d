"""Rows of several machines, pooled in one place, trained as one problem: what rests elsewhere stays as it is.

The sweeps are those of one machine (trainer.sweeps.run). There is no reader: all rows are on the disk.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import State, create_state
from streamsvm.trainer.rows.disk import DiskRows, MakeDisk
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import Link
from streamsvm.trainer.solvers import make_cursor, problem_of
from streamsvm.trainer.sweeps.run import Sweeps, Wanted
from streamsvm.trainer.sweeps.sweep import threads_for
from streamsvm.trainer.updates.make_variables import parts_of, warm_tally_of
from streamsvm.trainer.updates.statistics import Tally

_MOST_SWEEPS = 1000


class PooledRows:
    """`add` rows, then `train` them, once. Leaving the context gives the disk back.

    settings   of the whole problem; rows are kept in its spill_directory
    directory  for what is kept about them
    count      of rows; updates: visits to them in training
    """

    def __init__(self, settings: TrainerSettings, directory: Path, make_disk: MakeDisk = DiskRows) -> None:
        self._settings, self._directory = settings, directory
        self._stack = ExitStack()
        self._threads = threads_for(settings.threads, self._stack)
        self._rows = make_disk(settings.spill_directory, self._threads.lent, None)
        self._stack.callback(self._rows.shutdown)
        self._alpha: list[Array] = []
        self._weight: list[Array] = []
        self.count = self.updates = 0

    def __enter__(self) -> "PooledRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, rows: Segment, alpha: Array, weight: Array) -> None:
        """Rows (k,), their alpha (k,), or with an axis of lanes, and their weights (k,), or (0,): they have none."""
        ids = np.arange(self.count, self.count + len(rows), dtype=np.int32)
        self._rows.collect(replace(rows, row_id=ids), np.arange(len(rows), dtype=np.int32))
        self._alpha.append(alpha)
        self._weight.append(weight)
        self.count += len(rows)

    def train(
        self, w: Array, converged: Array, share_of_gap: float, is_interrupted: Callable[[], bool]
    ) -> Array | None:
        """Until the rows' part of the gap is down to this share; w (width,), or with lanes, changes in place.

        converged       (lanes,) int64, of OF_LANE: those that have are left as they are
        is_interrupted  is asked many times a second, and may raise
        Returns alpha (count,), or with lanes; None, and w as it was, if a disk has no room for the rows, or for alpha.
        """
        self._rows.seal(self.count)
        if not self._rows.is_sealed:
            return None
        settings, alpha = self._settings, np.concatenate(self._alpha)
        with TemporaryDirectory(dir=self._directory) as own:
            try:
                state = create_state(
                    Path(own), self.count, len(w), lanes=settings.lanes, has_weights=settings.has_weights
                )
            except OSError:
                return None
            state.lanes["converged_by"][: len(converged)] = converged
            state.weight[:] = np.concatenate(self._weight)
            sweeps, tally = self._sweeps(state, alpha, w, Wanted(None, None, share_of_gap), is_interrupted)
            sweeps.run(self._rows, lambda done: done >= _MOST_SWEEPS, np.random.default_rng(settings.seed))
            self.updates = tally.updates
        return alpha

    def _sweeps(
        self, state: State, alpha: Array, w: Array, wanted: Wanted, is_interrupted: Callable[[], bool]
    ) -> tuple[Sweeps, Tally]:
        settings = self._settings
        cursor = make_cursor(None, state, settings, partial(_Link, is_interrupted))
        cursor.stand(Step(1, self.count, len(w), 1, 0, 0, self.count, 0, 0, True, True, (), (), ()))
        kept = warm_tally_of(settings, alpha)
        problem = problem_of(settings, cursor.link)
        variables, tally, visitor, make_momentum = parts_of(problem, settings, cursor.link, alpha, w, kept)
        sweeps = Sweeps(visitor, cursor, tally, variables, wanted, self._threads, kept, make_momentum=make_momentum)
        return sweeps, tally


class _Link(Link):
    def __init__(self, is_interrupted: Callable[[], bool], *about: Any) -> None:
        super().__init__(*about)
        self._is_interrupted = is_interrupted

    @property
    def is_interrupted(self) -> bool:
        return self._is_interrupted()
