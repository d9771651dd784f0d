"""The rows of the cache, some segments at a time permuted as one."""

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from trainer.rows.cache import Cursor
from trainer.rows.mixture import Mixture

IsActive = Callable[[Array], Array]


class ResidentRows:
    """`take_in` each step, then sweep over its rows. `lent` windows may be in use at a time.

    segments  ids of all in the cache
    """

    is_open = has_active = True  # it does not fail, and all are in memory
    n_aside = 0

    def __init__(self, cursor: Cursor, lent: int = 1) -> None:
        self._cursor = cursor
        self._mixtures = deque(Mixture() for _ in range(lent))
        self._sweepable: set[int] = set()
        self.segments: tuple[int, ...] = ()

    def take_in(self, step: Step) -> None:
        """Of a new step, sweep over what can be visited now."""
        self.segments = (*step.fresh, *step.resident)
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)

    @property
    def has_all(self) -> bool:
        """Whether the cache holds all rows of the problem."""
        return sum(len(self._cursor.read(known)) for known in self.segments) == self._cursor.step.n_rows

    @property
    def n_bytes(self) -> int:
        """Of all rows in the cache."""
        return sum(int(self._cursor.read(known).row_bytes.sum()) for known in self.segments)

    def take_in_all(self) -> bool:
        """Sweep over all segments; whether they hold all rows of the problem."""
        self._sweepable = set(self.segments)
        return self.has_all

    def windows(self, is_active: IsActive | None, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once, or those of these ids (k,) that are active (k,) bool.

        A window is valid until `lent` more have been taken, and no longer than the step.
        """
        left = rng.permutation(np.array(sorted(self._sweepable), np.int64)).tolist()
        while left:
            mixture = self._mixtures.popleft()
            self._mixtures.append(mixture)
            mixture.clear()
            while left and not mixture.is_rich:
                segment_id = left.pop()
                # It may have been repacked since the sweep began.
                if segment_id in self._sweepable:
                    rows = self._cursor.read(segment_id)
                    picked = None if is_active is None else np.flatnonzero(is_active(rows.row_id)).astype(np.int32)
                    mixture.add(rows, picked)
            yield mixture.rows

    def forget_active(self) -> None:
        """Those that are active need no place of their own: nothing to do, here and below."""

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """They stay where they are."""

    def narrow(self) -> None:
        """They are where they were."""
