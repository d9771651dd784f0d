"""A table of the cache's segments and their rows."""

import numpy as np

from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import most_rows, view


class Slots:
    """A table with a line, a slot, for each segment that the cache may hold.

    ids     (n_slots,)            id of the segment
    live    (n_slots,)            whether the slot has a segment; fresh: whether the last step brought it
    rows    (n_slots,)            number of its rows
    row_id  (n_slots, most_rows)  ids of its rows; bytes: their packed sizes
    worth   (n_slots,)            bytes of its rows worth keeping, as computed last; is_new: never computed
    """

    def __init__(self, plan: CachePlan) -> None:
        # The operating system gives memory only to pages that are written; few segments are full of shortest rows.
        shape = plan.most_live, most_rows(plan.segment_bytes)
        self._slot_of: dict[int, int] = {}
        self._free = list(range(plan.most_live))
        self.ids = np.zeros(plan.most_live, np.int64)
        self.live, self.fresh, self.is_new = (np.zeros(plan.most_live, bool) for _ in range(3))
        self.rows = np.zeros(plan.most_live, np.int64)
        self.row_id = np.empty(shape, np.int32)
        self.bytes = np.empty(shape, np.int32)
        self.worth = np.zeros(plan.most_live)

    @property
    def scored(self) -> Array:
        """Slots of the segments that may be retired: rows of the last step have no scores yet."""
        return self.in_order(self.live & ~self.fresh)

    def in_order(self, chosen: Array) -> Array:
        """The chosen (n_slots,) bool slots, ordered by the ids of their segments: results must not depend on slots."""
        slots = np.flatnonzero(chosen)
        return slots[np.argsort(self.ids[slots])]

    def ids_of(self, chosen: Array) -> tuple[int, ...]:
        """Ids of the segments at the chosen (n_slots,) bool slots, ascending."""
        return tuple(np.sort(self.ids[chosen]).tolist())

    def begin_section(self) -> None:
        """All segments have scores now, and no worth."""
        self.fresh[:], self.is_new[:], self.worth[:] = False, self.live, 0.0

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note a commit: segments that left, that were packed anew, and that came."""
        for segment_id in retired:
            slot = self._slot_of.pop(segment_id)
            self.live[slot] = False
            self._free.append(slot)
        self.fresh[:] = False
        for segment_id, data in {**repacked, **fresh}.items():
            slot = self._slot_of[segment_id] = self._free.pop()
            self.ids[slot] = segment_id
            self.live[slot] = self.is_new[slot] = True
            self.fresh[slot] = segment_id in fresh
            segment = view(data)
            self.rows[slot] = len(segment)
            self.row_id[slot, : len(segment)] = segment.row_id
            self.bytes[slot, : len(segment)] = segment.row_bytes
