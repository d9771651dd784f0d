"""The rows the cache holds under block minimization: a block, and the rows kept of those before it."""

import numpy as np

from reader.residents import Eviction, Residents
from storage.cache import CacheWriter
from storage.csr import Array
from storage.plan import CachePlan
from storage.repack import appraise
from storage.segment import ROW_ID, Segment
from storage.state import State


class BlockResidents(Residents):
    """`begin_section` chooses what stays when the trainer is done with a block; `make_room` goes on to drop the rest.

    kept_bytes   room for the rows that stay, those of the lowest score; 0: none do (plain block minimization)
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, kept_bytes: int, seed: int) -> None:
        super().__init__(cache, plan, state, "score", seed)
        self._protects = False  # every row is visited while its block is here
        self._kept_bytes = kept_bytes
        # Segments whose rows have still to be packed anew or dropped, with the positions (k,) of those that stay.
        self._old: list[tuple[int, Array]] = []

    def begin_section(self, _place: tuple[int, int]) -> None:
        """All that is live belongs to blocks that are done with; what does not stay can be read in anew at once."""
        slots = self._slots.in_order(self._slots.live)
        if not len(slots):
            return
        self._slots.fresh[:] = False
        rows = self._look_up(slots, 0)
        stays, _ = appraise(rows, len(slots), self._kept_bytes)
        for slot, mask in zip(slots.tolist(), np.split(stays, np.cumsum(self._slots.rows[slots])[:-1]), strict=True):
            self.is_resident[self._slots.row_id[slot, : len(mask)][~mask]] = False
            self._old.append((int(self._slots.ids[slot]), np.flatnonzero(mask)))

    def make_room(self, _arriving: int, _pass: int) -> Eviction:
        """Go on with what `begin_section` began: a step writes no more segments than the cache's plan allows."""
        most = self._plan.most_retired - 1 if self._kept_bytes else len(self._old)
        now, self._old = self._old[:most], self._old[most:]
        retired = [segment_id for segment_id, _ in now]
        evicted, packed = [np.empty(0, ROW_ID)], []
        for segment, (_, stay) in zip(self._cache.read_all(retired), now, strict=True):
            packed += self._pack_on(segment, stay)
            evicted.append(np.delete(segment.row_id, stay))
        if not self._old and not self._builder.is_empty:
            packed.append(self._builder.take())
        return Eviction(retired, packed, np.concatenate(evicted), makes_room=not self._old)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note what a commit changed; all that came since the last block ended is fresh."""
        came = self._slots.fresh.copy()
        super().advance(retired, repacked, fresh)
        self._slots.fresh |= came

    def _pack_on(self, segment: Segment, rows: Array) -> list[bytes]:
        """The segments that these rows complete; the rest goes into one with the rows that follow."""
        packed = []
        while len(rows):
            rows = rows[self._builder.add(segment, rows) :]
            if len(rows):
                packed.append(self._builder.take())
        return packed
