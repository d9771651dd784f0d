"""Rows of all machines that do not rest, brought to the coordinator and trained there as one problem.

Near the optimum most rows rest at a bound, on every machine. The rows that do not rest depend on rows of other
machines. Rounds, in which each machine trains its rows alone, settle these rows ever more slowly. One trainer that has
all of them needs a few sweeps only, as with the informative rows in the cache of one machine (StreamSVM; SBM: Chang,
Roth, KDD 2011). Then each machine looks at all its rows: those that have become active move in the round that follows.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamsvm.service.cluster.rounds.messages import ExportedRows, Found, Machines, OrderToMachine
from streamsvm.service.jobs.plan.memory import spills
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import view
from streamsvm.storage.run.rounds import Order
from streamsvm.trainer.distributed.active_set_solver import PooledRows
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers import settings_of

_SHARE_OF_DISK = 0.25  # of the free space: rows may be there twice, and other programs need space, too
# Least share of the gap at which training of a pool ends: then rows outside the pool matter as much. Largest share.
SHARE_OF_GAP, _MOST_SHARE = 0.1, 0.5


@dataclass(frozen=True)
class Pool:
    """Settings for training the pooled rows of all machines on the coordinator.

    settings    settings of a trainer of the whole problem; its spill_directory holds the rows
    directory   directory of the run
    most_bytes  limit on the rows in a pool
    """

    settings: TrainerSettings
    directory: Path
    most_bytes: int

    def open(self) -> "Pooled":
        """Return an empty pool."""
        return Pooled(PooledRows(self.settings, self.directory))


class Pooled:
    """A pool: `fill` it with rows that machines export, then `train` them, once. Leaving the context removes files."""

    def __init__(self, rows: PooledRows) -> None:
        self._rows = rows
        self._from: list[tuple[int, int]] = []  # machine, rows

    def __enter__(self) -> "Pooled":
        return self

    def __exit__(self, *about: object) -> None:
        self._rows.__exit__(*about)

    def fill(
        self, asked: set[int], collect: Callable[..., dict[int, Found]], machines: Machines, answer: OrderToMachine
    ) -> tuple[dict[int, Found], bool]:
        """Add the rows that the machines in `asked` export; `answer` asks them for more until they have no more.

        collect  see `Collector`
        Returns their last reports, and whether no machine was late.
        """
        come: dict[int, Found] = {}
        pending = asked
        while pending:
            answered = collect(pending, Order.GIVE, needs_all=False, least=0 if come else 1)
            exported = {k: found.exported for k, found in answered.items() if found.exported is not None}
            for k, each in exported.items():
                self.add(k, each)
            come |= answered
            pending = {k for k, each in exported.items() if each.segments}
            for k in pending:
                machines.answer(k, answer)
        ready = {k: found for k, found in come.items() if found.exported is None or not found.exported.segments}
        return ready, len(ready) == len(come)

    def add(self, number: int, exported: ExportedRows) -> None:
        """Add the rows that machine `number` exports."""
        start = 0
        for segment in exported.segments:
            rows = view(segment)
            part = slice(start, start + len(rows))
            self._rows.add(rows, exported.alpha[part])
            start = part.stop
        self._from.append((number, start))

    @property
    def count(self) -> int:
        """Number of rows in the pool."""
        return self._rows.count

    @property
    def updates(self) -> int:
        """Number of visits to pooled rows in training."""
        return self._rows.updates

    def train(
        self, w: Array, converged: Array, share_of_gap: float, is_interrupted: Callable[[], bool]
    ) -> dict[int, Array]:
        """Train as `PooledRows.train` does; return machine -> alpha of its rows in order, {} if that returns None."""
        alpha = self._rows.train(w, converged, share_of_gap, is_interrupted) if self.count else None
        if alpha is None:
            return {}
        ends = np.cumsum([rows for _, rows in self._from])
        by_machine: dict[int, list[Array]] = {}
        for (number, _), rows in zip(self._from, np.split(alpha, ends[:-1]), strict=True):
            by_machine.setdefault(number, []).append(rows)
        return {number: np.concatenate(rows) for number, rows in by_machine.items()}


def pool_for(plan: JobPlan, dataset: Path, maps: FeatureMaps, directory: Path) -> Pool | None:
    """Return the Pool of a job, on the dataset's disk, or in memory if the job may not spill; None: no rows are pooled.

    Where no row rests at a bound, as with logistic loss, the pool would have to hold all rows: such a job has none.
    """
    if plan.spec.combine == "average" or not plan.spec.loss_kind.has_rest:
        return None
    on_disk = spills(plan.spec)
    place = dataset.parent if on_disk else directory
    most = int(_SHARE_OF_DISK * shutil.disk_usage(place).free)
    # Rows may be there twice.
    most = most if on_disk else min(most, plan.cache.cache_bytes // 2)
    told = {**run_file(plan, dataset)["trainer"], "resume": None, "checkpoints": None, "spill_directory": str(place)}
    return Pool(settings_of(told, maps), directory, most)


def share_of_gap(gap: Array, wanted: float | None, D: Array) -> float:
    """Return the share of `gap` (lanes,) at which training of a pool ends, by the job's relative gap, `wanted`."""
    if wanted is None:
        return SHARE_OF_GAP
    # A lane whose gap is not known, or 0, does not change the share.
    enough = np.divide(wanted * np.abs(D + gap) / 2, gap, out=np.ones_like(gap), where=gap > 0.0)
    return float(np.clip(enough.min(), SHARE_OF_GAP, _MOST_SHARE))
