"""Exports active rows of a shard to the coordinator, which trains those of all shards; then takes their new alpha."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from streamsvm.storage.files.arrays import load_array
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import Packer
from streamsvm.storage.rows.segment import Segment, used_bytes, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.storage.run.rounds import GIVEN, GIVEN_ALPHA, TAKEN_ALPHA
from streamsvm.trainer.updates.statistics import LEAST_SLACK

Windows = Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]]


class ActiveRowExport:
    """Call `write_some` until it exports no more rows, then `take_alpha`, or `forget` to drop what was exported.

    directory  directory of the run; alpha (n_rows, width); score (n_rows,) of the rows' last visits
    at_once    bytes that a call of `write_some` writes before it returns, unless one row is longer
    slowdowns  codes of storage.run.slowdowns, if a row was too long to be exported
    """

    def __init__(self, directory: Path, alpha: Array, score: Array, at_once: int = 16 << 20) -> None:
        self._directory, self._alpha, self._score, self._at_once = directory, alpha, score, at_once
        self._windows: Windows = lambda *_: iter(())
        self._rng = np.random.default_rng(0)  # windows in random order: if not all rows fit, each export has other rows
        self.slowdowns: Collection[str] = ()
        self._row_ids: list[Array] = []
        self._segments: Iterator[bytes] | None = None

    def rows_from(self, windows: Windows) -> None:
        """Set the source of rows: windows(is_active, rng) yields rows; is_active: ids (k,) -> which rows, (k,) bool."""
        self._windows = windows

    def write_some(self, most: int) -> None:
        """Export more active rows, with their alpha. All calls together export at most `most` bytes, or one segment."""
        if self._segments is None:
            self._segments = self._fitting(most, self._packed())
        before, n_bytes = len(self._row_ids), 0
        with (self._directory / GIVEN).open("wb") as file:
            while n_bytes < self._at_once and (segment := next(self._segments, None)):
                rows = view(segment)
                self._row_ids.append(rows.row_id.astype(np.int64))
                n_bytes += file.write(segment[: used_bytes(segment)])
        np.save(self._directory / GIVEN_ALPHA, self._alpha[_joined(self._row_ids[before:])])

    def take_alpha(self) -> bool:
        """Set alpha of exported rows to their new alpha, if it has come; return whether it had. Forget the rows."""
        path, row_ids = self._directory / TAKEN_ALPHA, self._row_ids
        self.forget()
        if not path.exists():
            return False
        self._alpha[_joined(row_ids)] = load_array(path)
        path.unlink()
        return True

    def forget(self) -> None:
        """Forget the rows exported so far: the next export begins anew."""
        self._row_ids, self._segments = [], None

    def _packed(self) -> Iterator[bytes]:
        packer = Packer(SPILL_SEGMENT)
        for rows in self._windows(self._is_active, self._rng):
            yield from packer.add(rows, np.flatnonzero(self._is_active(rows.row_id)).astype(np.int32))
        yield from packer.rest()

    def _fitting(self, most: int, segments: Iterator[bytes]) -> Iterator[bytes]:
        """Yield segments of `most` bytes in all, or one usual segment; segments too long for the rest are left out."""
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
    """Return all ids in one array."""
    return np.concatenate([np.empty(0, np.int64), *row_ids])
