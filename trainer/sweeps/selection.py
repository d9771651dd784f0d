"""Decides how often a sweep visits each row."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.storage.rows.scattered import places_of
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import adapt, sample_visits, share_visits, shuffle


class Adaptive:
    """Selects rows more often if their visits gain more; a row once a sweep on average (`trainer.kernels.order`).

    `schedule` makes a sweep: it calls `begin_sweep`, then `visits` for each segment, given by the ids (n,) of its rows.
    kept: arrays of `resumable` from which to go on.
    """

    def __init__(self, n_rows: int, kept: Mapping[str, Array] = EMPTY) -> None:
        self._preference = kept.get("preference", np.ones(n_rows, np.float32))
        self._credit = kept.get("credit", np.full(n_rows, 0.5, np.float32))
        self._mean = kept.get("mean_gain", np.zeros(2))
        self._rows = 0
        self._q = 1.0

    def admit(self, row_id: Array) -> None:
        """Reset how often these rows are visited: their gains of earlier sweeps say little about gains now."""
        self._preference[row_id] = 1.0
        self._credit[row_id] = 0.5

    def begin_sweep(self, row_ids: Iterable[Array]) -> None:
        """Begin a sweep over segments whose rows have these ids, (n,) for each segment."""
        rows, preferences = 0, 0.0
        for row_id in row_ids:
            rows += len(row_id)
            preferences += float(self._preference[row_id].sum(dtype=np.float64))
        self._rows, self._q = rows, rows / preferences

    def schedule(self, segments: Sequence[Segment], rng: np.random.Generator) -> Array:
        """Return a sweep's visits over all segments in random order: places (k,) int64, as ScatteredRows has them.

        A row's visits are spread over the whole sweep: a second one gains little while w is what the first one left.
        """
        self.begin_sweep(rows.row_id for rows in segments)
        visits = [self.visits(rows.row_id, rng) for rows in segments]
        schedule, begin = np.empty(sum(int(each.sum()) for each in visits), np.int64), 0
        for number, each in enumerate(visits):
            places = np.repeat(places_of(number, np.arange(len(each))), each)
            schedule[begin : begin + len(places)] = places
            begin += len(places)
        shuffle(int(rng.integers(1, 1 << 32)), schedule)
        return schedule

    def visits(self, row_id: Array, _rng: np.random.Generator) -> Array:
        """Return how often this sweep visits each row, (n,) int32."""
        visits = np.empty(len(row_id), np.int32)
        share_visits(row_id, self._q, self._preference, self._credit, visits)
        return visits

    def learn(self, row_id: Array, order: Array, gain: Array) -> None:
        """Update preferences: visits at the positions `order` (k,) have raised the dual objective by `gain` (k,)."""
        adapt(order, row_id, gain, self._rows, self._preference, self._mean)

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which another Adaptive goes on, as its `kept`."""
        return {"preference": self._preference, "credit": self._credit, "mean_gain": self._mean}


class Sampled(Adaptive):
    """Shares visits out at random: every sweep makes as many visits as there are rows (algorithm 4 as printed)."""

    def begin_sweep(self, row_ids: Iterable[Array]) -> None:
        super().begin_sweep(row_ids)
        self._left = np.array([self._rows, self._rows / self._q])

    def visits(self, row_id: Array, rng: np.random.Generator) -> Array:
        visits = np.empty(len(row_id), np.int32)
        sample_visits(row_id, int(rng.integers(1, 1 << 32)), self._preference, self._left, visits)
        return visits


# value of a job's field -> schedule
SCHEDULES: dict[str, Callable[..., Adaptive]] = {"accumulators": Adaptive, "paper": Sampled}
