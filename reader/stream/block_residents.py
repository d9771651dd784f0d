"""The rows that the cache holds under block minimization: one block, and the best rows of the blocks before it."""

import numpy as np

from streamsvm.reader.stream.residents import Eviction, Residents
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.repack import appraise
from streamsvm.storage.rows.segment import ROW_ID, Segment
from streamsvm.storage.run.state import State


class BlockResidents(Residents):
    """`begin_section` chooses the rows that stay when the trainer has finished a block; `make_room` packs them anew.

    Old segments are deleted one by one, when their room is needed: LMDB uses the oldest free pages first. If many were
    deleted at once, LMDB would write the single pages of each step scattered among the segments that follow, and soon
    no gap between them would hold a whole segment.

    kept_bytes   room for the rows that stay, those with the lowest scores; 0: no row stays (plain block minimization)
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, kept_bytes: int, seed: int) -> None:
        super().__init__(cache, plan, state, "score", seed)
        self._protects = False  # every row is visited while its block is here
        self._kept_bytes = kept_bytes
        # Slots of segments with rows to be packed anew, and the positions (k,) of these rows.
        self._old: list[tuple[int, Array]] = []
        self._is_useless = np.zeros(plan.most_live, bool)  # slots of segments that can be deleted
        self._evicted = np.empty(0, ROW_ID)

    def begin_section(self, _place: tuple[int, int]) -> None:
        """Choose which rows of the finished blocks stay; the others may be read in again from now on."""
        slots = self._slots.in_order(self._shown)
        if not len(slots):
            return
        self._slots.fresh[:] = False
        rows = self._look_up(slots, 0)
        stays, _ = appraise(rows, len(slots), self._kept_bytes)
        sizes = self._slots.rows[slots].tolist()
        row_id = np.concatenate([self._slots.row_id[slot, :size] for slot, size in zip(slots, sizes, strict=True)])
        self._evicted = row_id[~stays]
        self.is_resident[self._evicted] = False
        masks = np.split(stays, np.cumsum(sizes)[:-1])
        self._old = [(slot, np.flatnonzero(mask)) for slot, mask in zip(slots, masks, strict=True) if mask.any()]
        self._is_useless[slots] = [not mask.any() for mask in masks]

    def make_room(self, arriving: int, _pass: int) -> Eviction:
        """Pack some more of the rows that stay: a step writes no more segments than the cache's plan allows."""
        most = self._plan.most_retired - self._plan.fresh_per_step - 1
        now, self._old = self._old[:most], self._old[most:]
        packed = []
        segments = self._cache.read_all([int(self._slots.ids[slot]) for slot, _ in now])
        for segment, (slot, stay) in zip(segments, now, strict=True):
            packed += self._pack_on(segment, stay)
            self._is_useless[slot] = True
        if self._old:
            return Eviction(self._retire(len(packed)), packed, np.empty(0, ROW_ID), makes_room=False)
        if not self._builder.is_empty:
            packed.append(self._builder.take())
        evicted, self._evicted = self._evicted, np.empty(0, ROW_ID)
        return Eviction(self._retire(len(packed) + arriving), packed, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note what a commit changed; every segment that came since the last block ended stays fresh."""
        came = self._slots.fresh.copy()
        super().advance(retired, repacked, fresh)
        self._slots.fresh |= came
        self.rows = int(self._slots.rows[self._shown].sum())

    @property
    def _shown(self) -> Array:
        return self._slots.live & ~self._is_useless

    def _retire(self, coming: int) -> list[int]:
        """The oldest useless segments, as many as have to go for `coming` new ones."""
        to_free = max(0, int(np.count_nonzero(self._slots.live)) + coming - self._plan.most_live)
        slots = self._slots.in_order(self._slots.live & self._is_useless)[:to_free]
        self._is_useless[slots] = False
        return self._slots.ids[slots].tolist()

    def _pack_on(self, segment: Segment, rows: Array) -> list[bytes]:
        """Pack these rows; returns the segments that became full. The rest stays in the builder."""
        packed = []
        while len(rows):
            rows = rows[self._builder.add(segment, rows) :]
            if len(rows):
                packed.append(self._builder.take())
        return packed
