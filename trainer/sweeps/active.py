"""Dual coordinate descent with shrinking, in rounds over the segments that a caller brings: LIBLINEAR's loop."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.coordinate import DISTANCE
from streamsvm.trainer.rows.mixture import Mixture
from streamsvm.trainer.sweeps.sweep import shuffled, sweep
from streamsvm.trainer.updates.statistics import Visits
from streamsvm.trainer.updates.updater import CoordinateUpdater

_BEHIND = np.float32(1e6)  # factor of a shrunk row's distance that makes its score larger than any other row's


class ActiveRows:
    """The active rows of some segments: those not shrunk. Segments are mixed in random order, their rows permuted.

    going   passes the windows of a round on, until the job has to end
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        updater: CoordinateUpdater,
        mixture: Mixture | None = None,
        going: Callable[[Iterable[Segment]], Iterator[Segment]] = iter,
    ) -> None:
        self._going = going
        self._segments = segments
        self._updater = updater
        self._mixture = mixture or Mixture()
        self._n_rows = sum(map(len, segments))
        self.reactivate()

    def resume(self, kept: Mapping[str, Array]) -> None:
        """Go on from the arrays of `resumable`, if these are of segments of the same sizes."""
        if np.array_equal(kept.get("segment_sizes", ()), self._sizes()):
            self._active = np.split(kept["active"], np.cumsum(kept["active_sizes"])[:-1])
            self._above, self._below = kept["shrunk_beyond"].tolist()

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which `resume` goes on: the rows that are not shrunk."""
        return {
            "segment_sizes": self._sizes(),
            "active_sizes": np.array([len(active) for active in self._active]),
            "active": np.concatenate(self._active),
            "shrunk_beyond": np.array([self._above, self._below]),
        }

    @property
    def shrunk(self) -> int:
        """Number of rows that the next round leaves out."""
        return self._n_rows - sum(map(len, self._active))

    def reactivate(self) -> None:
        """Let the next round visit every row, and shrink none."""
        self._active = [np.arange(len(rows), dtype=np.int32) for rows in self._segments]
        self._above, self._below = np.inf, -np.inf

    def round(self, rng: np.random.Generator) -> float:
        """Visit the active rows once; return M+ - M-, the largest less the smallest projected gradient, or -inf."""
        taken: list[list[int]] = []  # numbers of the segments in each window

        def windows() -> Iterator[Segment]:
            for numbers, rows in self._mixture.sweep(self._segments, rng, self._active):
                taken.append(numbers)
                yield rows

        swept = sweep(
            self._going(windows()),
            shuffled(rng),
            self._updater,
            learn=lambda rows, order, visits: self._shrink(taken[-1], rows, order, visits),
        )
        M_plus, M_minus = float(swept.sums.M_plus[0]), float(swept.sums.M_minus[0])
        self._above = M_plus if M_plus > 0.0 else np.inf
        self._below = M_minus if M_minus < 0.0 else -np.inf
        return M_plus - M_minus

    def _shrink(self, numbers: list[int], rows: Segment, order: Array, visits: Visits) -> None:
        """Shrink resting rows among those just visited, the active rows of the segments of these numbers."""
        is_shrunk = self._updater.rests_beyond(rows.row_id[order], visits, self._above, self._below)
        if not is_shrunk.any():
            return
        if self._updater.score == DISTANCE:
            shrunk = order[is_shrunk]
            self._updater.note(rows.row_id[shrunk], _BEHIND * (1 + visits.score[is_shrunk]))
        stays = np.ones(len(rows), bool)
        stays[order[is_shrunk]] = False
        ends = np.cumsum([len(self._active[number]) for number in numbers])
        for number, own in zip(numbers, np.split(stays, ends[:-1]), strict=True):
            self._active[number] = self._active[number][own]

    def _sizes(self) -> Array:
        return np.array([len(rows) for rows in self._segments])


def descend_rounds(
    rows: ActiveRows, rounds: int, tolerance: float, rng: np.random.Generator, is_over: Callable[[], bool]
) -> None:
    """Make at most `rounds` rounds; end after a round over all rows that finds M+ - M- at most `tolerance`.

    is_over  returns, after each round, whether the job has to end
    """
    for _ in range(rounds):
        shrunk = rows.shrunk
        if rows.round(rng) <= tolerance:
            if not shrunk:
                return
            rows.reactivate()
        if is_over():
            return
