"""Rows of a part that do not rest, for who trains those of all parts as one; and what becomes of their alpha."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import Packer
from streamsvm.storage.rows.segment import Segment, used_bytes, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.storage.run.rounds import GIVEN, GIVEN_ALPHA, TAKEN_ALPHA
from streamsvm.trainer.sweeps.sweep import LEAST_SLACK

Windows = Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]]


class GivenRows:
    """`write_some` until none are left, then `take_alpha`; or `forget` them.

    at_once    bytes written at a time, or one row that is longer
    directory  of the run; alpha (n_rows,), or with an axis of lanes; score (n_rows,) of their last visits
    slowdowns  codes of storage.run.slowdowns: a row was too long to be given
    windows    of the rows at hand, those of these ids (k,) that are active (k,) bool; set by who sweeps
    """

    def __init__(self, directory: Path, alpha: Array, score: Array, at_once: int = 16 << 20) -> None:
        self._directory, self._alpha, self._score, self._at_once = directory, alpha, score, at_once
        self.windows: Windows = lambda *_: iter(())
        self._rng = np.random.default_rng(0)  # if there is no room for all, others are given each time
        self.slowdowns: Collection[str] = ()
        self._row_ids: list[Array] = []
        self._segments: Iterator[bytes] | None = None

    def write_some(self, most: int) -> None:
        """Some more of them, and their alpha; at most so many bytes in all, or one segment."""
        if self._segments is None:
            self._segments = self._fitting(most, self._packed())
        before, n_bytes = len(self._row_ids), 0
        with (self._directory / GIVEN).open("wb") as file:
            while n_bytes < self._at_once and (segment := next(self._segments, None)):
                rows = view(segment)
                self._row_ids.append(rows.row_id.astype(np.int64))
                n_bytes += file.write(segment[: used_bytes(rows)])
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
        packer = Packer(SPILL_SEGMENT)
        for rows in self.windows(self._is_active, self._rng):
            yield from packer.add(rows, np.flatnonzero(self._is_active(rows.row_id)).astype(np.int32))
        yield from packer.rest()

    def _fitting(self, most: int, segments: Iterator[bytes]) -> Iterator[bytes]:
        """Give rows that fit into so many bytes, or one usual segment; rows too long for what is left stay."""
        left = max(most, SPILL_SEGMENT)
        while left >= SPILL_SEGMENT and (segment := next(segments, None)):
            if len(segment) <= left:
                left -= len(segment)
                yield segment
            else:
                self.slowdowns = {"pool_without_room"}

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= LEAST_SLACK


def _joined(row_ids: list[Array]) -> Array:
    """All of these; none, if there are none."""
    return np.concatenate([np.empty(0, np.int64), *row_ids])
