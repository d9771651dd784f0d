"""The table of the rows that the cache's segments hold."""

import numpy as np

from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import most_rows, view


class Slots:
    """A table of the rows of live segments, a line for each.

    ids, live, fresh (n_slots,)  id of the segment, whether there is one, whether the last step brought it
    rows             (n_slots,)  its number of rows; row_id, bytes (n_slots, most_rows): the rows, their packed sizes
    worth, is_new    (n_slots,)  bytes of rows worth keeping when last looked at, whether it never was
    """

    def __init__(self, plan: CachePlan) -> None:
        # Only what is written to takes memory; few segments are full of the shortest rows.
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
        """Lines of the segments that may be retired: those of the last step have no scores yet."""
        return self.in_order(self.live & ~self.fresh)

    def in_order(self, chosen: Array) -> Array:
        """The chosen (n_slots,) lines in the order of their segments' ids: which they are makes no difference."""
        lines = np.flatnonzero(chosen)
        return lines[np.argsort(self.ids[lines])]

    def ids_of(self, chosen: Array) -> tuple[int, ...]:
        """Ids of the chosen (n_slots,) lines' segments, ascending."""
        return tuple(np.sort(self.ids[chosen]).tolist())

    def begin_section(self) -> None:
        """All segments have scores, and none has been looked at."""
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
