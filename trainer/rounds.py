"""Sweep after sweep over what the cache holds while rows stream through it, a window or so at a time."""

from collections.abc import Iterator
from itertools import islice
from math import inf

import numpy as np

from storage.csr import Array
from storage.segment import Segment
from trainer.link import Link
from trainer.rows.residents import ResidentRows
from trainer.schedule import WHOLE_EVERY
from trainer.selection import random_order
from trainer.sweep import Met, Threads, sweep
from trainer.visitor import Visitor


class Rounds:
    """`visit_some` as often as there is time. Rows that rest are left out of four sweeps of five."""

    def __init__(self, residents: ResidentRows, visitor: Visitor, link: Link, threads: Threads) -> None:
        self._residents = residents
        self._visitor = visitor
        self._link = link
        self._threads = threads
        self.begin_section()

    def begin_section(self) -> None:
        """A sweep ends where a section does, and the next one is whole."""
        self._windows: Iterator[Segment] = iter(())
        self._n_sweeps = 0
        self._met = Met()
        self._slack = inf

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows that do not rest; returns how many. There have to be rows in the cache."""
        before = self._met.visits
        while True:
            some = list(islice(self._windows, self._threads.count))
            sweep(some, lambda rows: random_order(len(rows), rng), self._visitor, self._threads, met=self._met)
            if self._met.visits > before:
                return self._met.visits - before
            if not some:
                self._begin_sweep(rng)
                before = 0

    def _begin_sweep(self, rng: np.random.Generator) -> None:
        self._slack = self._met.slack if self._n_sweeps % WHOLE_EVERY else inf
        self._n_sweeps += 1
        self._met = Met()
        self._windows = self._residents.windows(self._is_active, rng)

    def _is_active(self, row_id: Array) -> Array:
        return self._link.score[row_id] <= self._slack
