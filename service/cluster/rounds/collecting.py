"""Waits for the reports of machines: from all of them, or from those that are in time."""

import time
from collections.abc import Callable
from math import inf

import numpy as np

from streamsvm.service.cluster.rounds.machines import Machines, ShardState
from streamsvm.service.cluster.rounds.messages import Found
from streamsvm.storage.run.rounds import Order

_PATIENCE = 4.0  # times what a round usually takes, until others go on without a machine
_LEAST_PATIENCE = 5.0  # seconds
_POLL_SECONDS = 0.2

# Is called several times a second with the reports that have come, or before a longer silence, of so many seconds;
# it may raise.
Attend = Callable[[dict[int, Found], float], None]


class Collector:
    """`collect` reports, and note in `shards` when they came.

    attend  see above
    """

    def __init__(self, machines: Machines, shards: list[ShardState], attend: Attend) -> None:
        self._machines, self._shards, self._attend = machines, shards, attend
        self._usual_seconds: dict[Order, float] = {}

    def collect(self, pending: set[int], order: Order, needs_all: bool, least: int = 1) -> dict[int, Found]:
        """Reports on this order from all pending machines, or from those in time, but from `least` of them."""
        patience = max(_LEAST_PATIENCE, _PATIENCE * self._usual_seconds.get(order, inf))
        began = time.monotonic()
        come: dict[int, Found] = {}
        while pending - come.keys():
            self._attend(come, 0.0)
            left = [k for k in pending - come.keys() if not self._machines.is_lost(k)]
            is_late = time.monotonic() - began > patience
            if len(come) >= least and not needs_all and (is_late or not left):
                break
            for k, found in self._machines.wait(pending - come.keys(), _POLL_SECONDS).items():
                come[k] = found
                shard = self._shards[k]
                shard.counts, shard.seconds, shard.came = found.counts, found.seconds, time.monotonic()
                shard.sent_bytes += found.n_bytes
        for k in come:
            self._shards[k].waited += time.monotonic() - self._shards[k].came
        if come:
            self._usual_seconds[order] = float(np.median([found.seconds for found in come.values()]))
        return come
