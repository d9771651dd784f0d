"""Rows of a part that do not rest, for who trains those of all parts as one; and what becomes of their alpha."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from storage.csr import Array
from storage.rounds import GIVEN, GIVEN_ALPHA, TAKEN_ALPHA
from storage.segment import Segment, SegmentBuilder
from storage.spill_file import SPILL_SEGMENT
from trainer.sweep import LEAST_SLACK

Windows = Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]]


class GivenRows:
    """`write_some` until none are left, then `take_alpha`; or `forget` them.

    at_once    segments written at a time
    directory  of the run; alpha (n_rows,), or with an axis of lanes; score (n_rows,) of their last visits
    windows    of the rows at hand, those of these ids (k,) that are active (k,) bool; set by who sweeps
    """

    def __init__(self, directory: Path, alpha: Array, score: Array, at_once: int = 32) -> None:
        self._directory, self._alpha, self._score, self._at_once = directory, alpha, score, at_once
        self.windows: Windows = lambda *_: iter(())
        self._rng = np.random.default_rng(0)  # if there is no room for all, others are given each time
        self._row_ids: list[Array] = []
        self._segments: Iterator[bytes] | None = None

    def write_some(self, most: int) -> None:
        """Some more of them, and their alpha; at most so many segments in all."""
        if self._segments is None:
            self._segments = islice(self._packed(), most)
        before = len(self._row_ids)
        with (self._directory / GIVEN).open("wb") as file:
            for _, segment in zip(range(self._at_once), self._segments, strict=False):
                file.write(segment)
        np.save(self._directory / GIVEN_ALPHA, self._alpha[_joined(self._row_ids[before:])])

    def take_alpha(self) -> bool:
        """What there is for the rows that were given, in their order; whether there is something."""
        path, row_ids = self._directory / TAKEN_ALPHA, self._row_ids
        self.forget()
        if not path.exists():
            return False
        self._alpha[_joined(row_ids)] = np.load(path)
        path.unlink()
        return True

    def forget(self) -> None:
        """Nobody will say what has become of those that were given: who asks next is given all anew."""
        self._row_ids, self._segments = [], None

    def _packed(self) -> Iterator[bytes]:
        """A row longer than a segment is left out."""
        builder = SegmentBuilder(SPILL_SEGMENT)
        for rows in self.windows(self._is_active, self._rng):
            picked = np.flatnonzero(self._is_active(rows.row_id)).astype(np.int32)
            while len(picked):
                added = builder.add(rows, picked)
                if not added and builder.is_empty:
                    added = 1
                picked = picked[added:]
                if len(picked) and not builder.is_empty:
                    yield self._take(builder)
        if not builder.is_empty:
            yield self._take(builder)

    def _take(self, builder: SegmentBuilder) -> bytes:
        self._row_ids.append(builder.rows.row_id.astype(np.int64))
        return builder.take()

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= LEAST_SLACK


def _joined(row_ids: list[Array]) -> Array:
    """All of these; none, if there are none."""
    return np.concatenate([np.empty(0, np.int64), *row_ids])
