"""Trains the active rows of all machines as one problem, on the coordinator; alpha of resting rows does not change.

Near the optimum most rows rest at a bound, on every machine. The rows that do not rest depend on rows of other
machines. Rounds, in which each machine trains its rows alone, settle these rows ever more slowly. One trainer that has
all of them needs a few sweeps only, as with the informative rows in the cache of one machine (StreamSVM; SBM: Chang,
Roth, KDD 2011). Then each machine looks at all its rows: those that have become active move in the round that follows.

The sweeps are those of a job on one machine (trainer.sweeps.run). There is no reader: all rows are on the disk.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import view
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.rows.disk import DiskRows, MakeDisk
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.solvers import make_cursor
from streamsvm.trainer.sweeps.run import Sweeps
from streamsvm.trainer.sweeps.sweep import threads_for
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.statistics import warm_statistics
from streamsvm.trainer.updates.updater import make_variables

_MOST_SWEEPS = 1000


class Pool:
    """Rows of several machines: in its context `add` them, then `train` once. Leaving the context removes their files.

    settings    settings of a trainer of the whole problem; its spill_directory holds the rows
    directory   directory for alpha and the other state of training
    most_bytes  limit on the bytes of the rows
    count       number of rows; updates: number of visits to rows in training
    """

    def __init__(
        self, settings: TrainerSettings, directory: Path, most_bytes: int, make_disk: MakeDisk = DiskRows
    ) -> None:
        self.settings, self._directory, self.most_bytes = settings, directory, most_bytes
        self._make_disk = make_disk

    def __enter__(self) -> "Pool":
        self._stack = ExitStack()
        self._threads = threads_for(self.settings.threads, self._stack)
        self._rows = self._make_disk(self.settings.spill_directory, self._threads.lent, None)
        self._stack.callback(self._rows.shutdown)
        self._given: list[tuple[int, Array]] = []  # machine, alpha of the rows
        self.count = self.updates = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, number: int, segments: Iterable[bytes], alpha: Array) -> None:
        """Add the k rows that machine `number` exports, and their alpha (k, lanes)."""
        for segment in segments:
            rows = view(segment)
            ids = np.arange(self.count, self.count + len(rows), dtype=np.int32)
            self._rows.collect(replace(rows, row_id=ids), np.arange(len(rows), dtype=np.int32))
            self.count += len(rows)
        self._given.append((number, alpha))

    def train(
        self, w: Array, converged: Array, share_of_gap: float, is_interrupted: Callable[[], bool]
    ) -> dict[int, Array]:
        """Train on the pooled rows until their part of the duality gap has fallen to `share_of_gap` of its first value.

        w               (features, width) sum of alpha_i y_i x_i over the rows of all machines, shrunk ones included;
                        changes in place
        converged       (lanes,) int64, as `converged_by` of storage.run.state; the tasks that have converged stay as
                        they are
        is_interrupted  called many times a second; an exception that it raises ends the training
        Returns the new alpha of each machine's pooled rows, by the number of the machine. Without pooled rows, or
        without room for them or for alpha on the disk, returns {} and leaves w as it is.
        """
        self._rows.seal(self.count)
        if not self.count or not self._rows.is_sealed:
            return {}
        settings, alpha = self.settings, np.concatenate([alpha for _, alpha in self._given])
        with TemporaryDirectory(dir=self._directory) as own:
            try:
                state = create_state(Path(own), self.count, len(w), lanes=settings.tasks.width)
            except OSError:
                return {}
            state.lanes["converged_by"][: len(converged)] = converged
            cursor = make_cursor(None, state, settings, partial(_Interruptible, is_interrupted))
            cursor.stand(Step(1, self.count, len(w), 1, 0, 0, self.count, 0, 0, True, True, (), (), ()))
            kept, shared = warm_statistics(settings.tasks, alpha), cursor.shared
            parts = make_variables(
                settings, alpha, w, shared.note, kept, lambda: shared.scratch_w, lambda: shared.has_converged
            )
            sweeps = Sweeps(parts, cursor, StoppingTargets(None, None, share_of_gap), self._threads, kept)
            sweeps.run(self._rows, lambda done: done >= _MOST_SWEEPS, np.random.default_rng(settings.seed))
            self.updates = parts.statistics.updates
        by_row = np.repeat([number for number, _ in self._given], [len(rows) for _, rows in self._given])
        return {number: alpha[by_row == number] for number in np.unique(by_row).tolist()}


class _Interruptible(SharedState):
    def __init__(self, is_interrupted: Callable[[], bool], *about: Any) -> None:
        super().__init__(*about)
        self._is_interrupted = is_interrupted

    @property
    def is_interrupted(self) -> bool:
        return self._is_interrupted()
