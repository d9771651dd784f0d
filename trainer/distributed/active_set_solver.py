"""Trains the active rows of several machines as one problem, on one machine; alpha of resting rows does not change.

The sweeps are those of a job on one machine (trainer.sweeps.run). There is no reader: all rows are on the disk.
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
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.solvers import make_cursor
from streamsvm.trainer.sweeps.run import Sweeps
from streamsvm.trainer.sweeps.sweep import threads_for
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.statistics import DualStatistics, warm_statistics
from streamsvm.trainer.updates.updater import make_variables

_MOST_SWEEPS = 1000


class PooledRows:
    """Rows of several machines: `add` them, then `train` once. When the context is left, their files are removed.

    settings   settings of the whole problem; the rows are stored in its spill_directory
    directory  directory for alpha and the other state of training
    count      number of rows; updates: number of visits to rows in training
    """

    def __init__(self, settings: TrainerSettings, directory: Path, make_disk: MakeDisk = DiskRows) -> None:
        self._settings, self._directory = settings, directory
        self._stack = ExitStack()
        self._threads = threads_for(settings.threads, self._stack)
        self._rows = make_disk(settings.spill_directory, self._threads.lent, None)
        self._stack.callback(self._rows.shutdown)
        self._alpha: list[Array] = []
        self.count = self.updates = 0

    def __enter__(self) -> "PooledRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, rows: Segment, alpha: Array) -> None:
        """Add the k rows of a segment, and their alpha (k, width)."""
        ids = np.arange(self.count, self.count + len(rows), dtype=np.int32)
        self._rows.collect(replace(rows, row_id=ids), np.arange(len(rows), dtype=np.int32))
        self._alpha.append(alpha)
        self.count += len(rows)

    def train(
        self, w: Array, converged: Array, share_of_gap: float, is_interrupted: Callable[[], bool]
    ) -> Array | None:
        """Train until the sum of the rows' terms of the gap has fallen to `share_of_gap` of its first value.

        w               (features, width) the w of all machines' rows, resting rows included; changes in place
        converged       (lanes,) int64, `converged_by` of storage.run.state: tasks that have converged do not change
        is_interrupted  is called many times a second, and may raise
        Returns alpha (count, width); None, with w unchanged, if a disk has no room for the rows, or for alpha.
        """
        self._rows.seal(self.count)
        if not self._rows.is_sealed:
            return None
        settings, alpha = self._settings, np.concatenate(self._alpha)
        with TemporaryDirectory(dir=self._directory) as own:
            try:
                state = create_state(Path(own), self.count, len(w), lanes=settings.tasks.width)
            except OSError:
                return None
            state.lanes["converged_by"][: len(converged)] = converged
            sweeps, statistics = self._sweeps(state, alpha, w, share_of_gap, is_interrupted)
            sweeps.run(self._rows, lambda done: done >= _MOST_SWEEPS, np.random.default_rng(settings.seed))
            self.updates = statistics.updates
        return alpha

    def _sweeps(
        self, state: State, alpha: Array, w: Array, share_of_gap: float, is_interrupted: Callable[[], bool]
    ) -> tuple[Sweeps, DualStatistics]:
        settings = self._settings
        cursor = make_cursor(None, state, settings, partial(_Interruptible, is_interrupted))
        cursor.stand(Step(1, self.count, len(w), 1, 0, 0, self.count, 0, 0, True, True, (), (), ()))
        kept, shared = warm_statistics(settings.tasks, alpha), cursor.shared
        parts = make_variables(
            settings, alpha, w, shared.note, kept, lambda: shared.scratch_w, lambda: shared.has_converged
        )
        return Sweeps(parts, cursor, StoppingTargets(None, None, share_of_gap), self._threads, kept), parts.statistics


class _Interruptible(SharedState):
    def __init__(self, is_interrupted: Callable[[], bool], *about: Any) -> None:
        super().__init__(*about)
        self._is_interrupted = is_interrupted

    @property
    def is_interrupted(self) -> bool:
        return self._is_interrupted()
