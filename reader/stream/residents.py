"""Records which rows are in the cache; decides which segments it retires, and which of their rows stay.

Rows are evicted one by one, but only whole segments free space. As in a log-structured file system that cleans by
lowest utilisation (Rosenblum and Ousterhout 1992), the segments with the fewest bytes of rows worth keeping are
retired, and these rows are written together into new segments.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from streamsvm.reader.stream.stream_kernel import gather
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import ROW_ID, SegmentBuilder, most_rows, room, view
from streamsvm.storage.rows.segment_kernel import best_rows
from streamsvm.storage.run.state import State, pass_stamp


@dataclass(frozen=True)
class Candidates:
    """The rows of some segments, segment after segment.

    segment (n,) int      number of the row's segment among these segments, from 0, not decreasing
    score   (n,) float32  rows of highest score are evicted first; -inf stays if there is any room, +inf never stays
    bytes   (n,) int      packed size of the row
    """

    segment: Array
    score: Array
    bytes: Array


def usable_room(bytes_: Array, segment_room: int) -> float:
    """Return the bytes, out of `segment_room`, that rows of sizes `bytes_` (n,) are expected to fill of a segment."""
    # Rows are packed in order. At the end of a segment the room of about one row is lost, more often of a long row.
    sizes = bytes_.astype(np.float64)
    lost = float(np.sum(sizes**2) / max(np.sum(sizes), 1.0))
    return max(segment_room - lost, segment_room / 2)


def appraise(rows: Candidates, n_segments: int, room: float) -> tuple[Array, Array]:
    """Choose the rows of lowest score that fit into `room` bytes together; a row of score +inf is never chosen.

    Returns a mask (n,) of the chosen rows, and the bytes of chosen rows in each segment, (n_segments,).
    """
    best, worth = np.empty(len(rows.score), bool), np.zeros(n_segments)
    bits = np.ascontiguousarray(rows.score, np.float32).view(np.int32)
    best_rows(bits, rows.bytes, rows.segment, room, best, worth)
    return best, worth


def choose_segments(worth: Array, to_free: int, most_retired: int, usable: float) -> Array:
    """Return the fewest segments to retire, emptiest first, to free the space of `to_free` segments.

    worth   (n_segments,) bytes of rows worth keeping in each; those of k retired segments must fit into k - to_free
    most_retired  most segments returned, >= to_free; as many are returned even if they do not free enough space
    usable  bytes of rows that a new segment can hold, see `usable_room`
    """
    emptiest = np.argsort(worth, kind="stable")[: min(most_retired, len(worth))]
    counts = np.arange(1, len(emptiest) + 1)
    fits = np.cumsum(worth[emptiest]) <= (counts - to_free) * usable
    return emptiest[: int(np.argmax(fits)) + 1] if fits.any() else emptiest


class SlotTable:
    """A table with one entry, a slot, for each segment that the cache may hold.

    ids     (n_slots,)            id of the segment
    live    (n_slots,)            the slot holds a segment; fresh: the last step added the segment
    rows    (n_slots,)            number of rows in the segment
    row_id  (n_slots, most_rows)  ids of the segment's rows; bytes: their packed sizes
    worth   (n_slots,)            bytes of the segment's rows worth keeping, when last computed; is_new: never computed
    """

    def __init__(self, plan: CachePlan) -> None:
        # Most of `row_id` and `bytes` is never written, and takes no memory: few segments have as many rows as can be.
        shape = plan.most_live, most_rows(plan.segment_bytes)
        self._slot_of: dict[int, int] = {}
        self._free = list(range(plan.most_live))
        self.ids = np.zeros(plan.most_live, np.int64)
        self.live, self.fresh, self.is_new = (np.zeros(plan.most_live, bool) for _ in range(3))
        self.rows = np.zeros(plan.most_live, np.int64)
        self.row_id = np.empty(shape, np.int32)
        self.bytes = np.empty(shape, np.int32)
        self.worth = np.zeros(plan.most_live)

    def in_order(self, chosen: Array) -> Array:
        """Return the slots with chosen (n_slots,) bool, by ascending segment id: results must not depend on slots."""
        slots = np.flatnonzero(chosen)
        return slots[np.argsort(self.ids[slots])]

    def ids_of(self, chosen: Array) -> tuple[int, ...]:
        """Return the ids, ascending, of the segments in the slots with chosen (n_slots,) bool."""
        return tuple(np.sort(self.ids[chosen]).tolist())

    def begin_section(self) -> None:
        """Mark all segments as having scores, and as new, so that their worth is computed again."""
        self.fresh[:], self.is_new[:], self.worth[:] = False, self.live, 0.0

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Record a commit: ids of the removed segments; segments repacked from their rows, and fresh ones, by id."""
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


# A segment's worth (bytes of rows worth keeping) is computed when the segment is new. Since scores change, each step
# computes it again for some other segments; for all segments that would cost more time than it saves.
_LOOKED_AT = 0.25
_FEWEST_LOOKED_AT = 32
_MOST_ROWS_LOOKED_AT = 1 << 15

_NO_STAMP = -1
_STREAM = 1  # number of this module's stream of random numbers; `piece_sources` draws another from the same seed


@dataclass(frozen=True)
class Eviction:
    """A plan to make room: ids of segments to remove, new segments with their rows that stay, ids of rows to evict.

    makes_room  False: there is no room for the arrivals in this step
    """

    retired: list[int]
    repacked: list[bytes]
    evicted: Array
    makes_room: bool = True


class Residents:
    """The live segments of the cache, and their rows.

    is_resident  (n_rows,) bool: the row is in the cache
    leaving      (n_rows,) bool: the last commit evicted the row; the trainer may still be visiting it
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, evicts: str, seed: int) -> None:
        self._cache = cache
        self._plan = plan
        self._state = state
        self._is_random = evicts == "random"
        self._protects = not self._is_random
        # With "random" the trainer evicts rows at any time, by the score +inf: all segments must be appraised.
        self._looked_at = 1.0 if self._is_random else _LOOKED_AT
        self._seed = seed
        self._rng = self._generator((1, 0))
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._slots = SlotTable(plan)
        self._left = np.empty(0, ROW_ID)
        self.rows = 0
        self.is_resident = np.zeros(len(state.alpha), bool)
        self.leaving = np.zeros(len(state.alpha), bool)

    @property
    def fresh(self) -> tuple[int, ...]:
        """Ids of the segments of newly read rows that the last commit added."""
        return self._slots.ids_of(self._shown & self._slots.fresh)

    @property
    def settled(self) -> tuple[int, ...]:
        """Ids of all segments but the `fresh` ones."""
        return self._slots.ids_of(self._shown & ~self._slots.fresh)

    @property
    def n_segments(self) -> int:
        """Number of segments that the trainer is to see."""
        return int(np.count_nonzero(self._shown))

    @property
    def _shown(self) -> Array:
        """(n_slots,) bool: the slot holds a segment that the trainer is to see."""
        return self._slots.live

    @property
    def most_fresh(self) -> int:
        """Number of segments that the next step may add, so that it writes no more than the cache's plan allows."""
        return self._plan.most_retired if self._leave_whole else self._plan.fresh_per_step

    def begin_section(self, place: tuple[int, int]) -> None:
        """Begin a section at `place` = (pass, pieces read). Its evictions depend only on `place`, rows and scores."""
        self._rng = self._generator(place)
        self._note_left(np.empty(0, ROW_ID))
        self._slots.begin_section()

    def make_room(self, arriving: int, pass_: int) -> Eviction:
        """Choose rows to evict, so that `arriving` more segments have room; these rows are no longer resident.

        If a row that waits for its visit would be evicted, evict no row, and return an Eviction with makes_room False.
        """
        to_free = self.n_segments + arriving - self._plan.most_live
        if to_free <= 0:
            self._note_left(np.empty(0, ROW_ID))
            return Eviction([], [], self._left)
        # Not the segments of the last step, whose rows have no scores yet.
        slots = self._slots.in_order(self._slots.live & ~self._slots.fresh)
        if self._leave_whole:
            self._note_left(self._rows_of(slots[:to_free]))
            return Eviction(self._slots.ids[slots[:to_free]].tolist(), [], self._left)
        usable = self._appraise(slots, to_free, pass_)
        most_retired = max(self._plan.most_retired, to_free)
        retired = slots[np.sort(choose_segments(self._slots.worth[slots], to_free, most_retired, usable))]
        rows = self._look_up(retired, pass_)
        kept, _ = appraise(rows, len(retired), (len(retired) - to_free) * usable)
        ends = np.cumsum(self._slots.rows[retired]).tolist()
        picked = [np.flatnonzero(kept[start:end]) for start, end in pairwise([0, *ends])]
        repacked, evicted = self._pack(self._slots.ids[retired].tolist(), picked, len(retired) - to_free)
        # Rows that were read in this pass while resident, and have not been visited in this pass, wait for their visit.
        stamp = pass_stamp(pass_)
        waits = (self._state.skipped[evicted] == stamp) & (self._state.visited[evicted] != stamp)
        if self._protects and waits.any():
            return Eviction([], [], np.empty(0, ROW_ID), makes_room=False)
        self._note_left(evicted)
        return Eviction(self._slots.ids[retired].tolist(), repacked, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Record a commit, see `SlotTable.advance`."""
        self._slots.advance(retired, repacked, fresh)
        self.rows = int(self._slots.rows[self._slots.live].sum())

    def admit(self, row_id: Array, segment: dict[int, bytes]) -> None:
        """Record a segment with the rows `row_id`, which were in the cache when the checkpoint was made."""
        self.is_resident[row_id] = True
        self.advance([], {}, segment)

    def _generator(self, place: tuple[int, int]) -> np.random.Generator:
        return np.random.default_rng((self._seed, _STREAM, *place))

    @property
    def _leave_whole(self) -> bool:
        """Whether the oldest segments are evicted as a whole, which costs least.

        True in a pass that sweeps over all rows follow, unless the disk is slow: scores are vague until then.
        """
        return bool(self._state.control["collects"]) and not self._state.control["disk_is_slow"]

    def _rows_of(self, slots: Array) -> Array:
        return np.concatenate([self._slots.row_id[slot, : self._slots.rows[slot]] for slot in slots.tolist()])

    def _note_left(self, evicted: Array) -> None:
        self.leaving[self._left] = False
        self.leaving[evicted] = True
        self.is_resident[evicted] = False
        self._left = evicted

    def _appraise(self, slots: Array, to_free: int, pass_: int) -> float:
        """Compute the worth of new slots and of some other slots; return the bytes of a segment that rows can fill."""
        table = self._slots
        most = _MOST_ROWS_LOOKED_AT * len(slots) // max(1, self.rows)
        others = slots[~table.is_new[slots]]
        some = min(len(others), max(_FEWEST_LOOKED_AT, min(most, int(self._looked_at * len(others)))))
        looked_at = np.concatenate((slots[table.is_new[slots]], self._rng.permutation(others)[:some]))
        rows = self._look_up(looked_at, pass_)
        usable = usable_room(rows.bytes, room(self._plan.segment_bytes))
        share = len(looked_at) / len(slots)
        _, table.worth[looked_at] = appraise(rows, len(looked_at), (len(slots) - to_free) * usable * share)
        table.is_new[looked_at] = False
        return usable

    def _look_up(self, slots: Array, pass_: int) -> Candidates:
        """Return the rows of the slots; a row that waits for a visit has the score -inf, so that it is evicted last."""
        table, state = self._slots, self._state
        n_rows = int(table.rows[slots].sum())
        rows = Candidates(np.empty(n_rows, np.int32), np.empty(n_rows, np.float32), np.empty(n_rows, np.int32))
        gather(
            slots, table.rows, table.row_id, table.bytes,
            state.score, state.skipped, state.visited, pass_stamp(pass_) if self._protects else _NO_STAMP,
            rows.segment, rows.score, rows.bytes,
        )  # fmt: skip
        if self._is_random:  # StreamSVM as published; +inf stays, of rows that the trainer gave up or evicted
            scores = self._rng.random(len(rows.score), np.float32)
            rows = replace(rows, score=np.where(rows.score == np.inf, np.inf, scores))
        return rows

    def _pack(self, retired: list[int], picked: list[Array], most: int) -> tuple[list[bytes], Array]:
        """Pack rows `picked` of retired segments into at most `most` new ones; return these, and ids of the rest."""
        packed: list[bytes] = []
        evicted = []
        for segment, rows in zip(self._cache.read_all(retired), picked, strict=True):
            stays = np.zeros(len(segment), bool)
            while len(rows) and len(packed) < most:
                added = self._builder.add(segment, rows)
                stays[rows[:added]] = True
                rows = rows[added:]
                if len(rows):
                    packed.append(self._builder.take())
            evicted.append(segment.row_id[~stays])
        if not self._builder.is_empty:
            packed.append(self._builder.take())
        return packed, np.concatenate(evicted)


class BlockResidents(Residents):
    """Residents in block minimization: the trainer has finished a block when the next section begins.

    `begin_section` then chooses the rows that stay, and `make_room` packs them into new segments. Old segments are
    deleted one by one, when their room is needed: LMDB uses the oldest free pages first. If many were deleted at once,
    LMDB would scatter single pages among later segments, and soon no gap would be long enough for a segment.
    kept_bytes   room for the rows that stay, those with the lowest scores; 0: no row stays (plain block minimization)
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, kept_bytes: int, seed: int) -> None:
        super().__init__(cache, plan, state, "score", seed)
        self._protects = False  # the trainer visits every row while its block is in the cache
        self._kept_bytes = kept_bytes
        # Slots of segments with rows to be repacked, and the positions (k,) of these rows in the segment.
        self._old: list[tuple[int, Array]] = []
        self._is_useless = np.zeros(plan.most_live, bool)  # slots of segments that can be deleted
        self._evicted = np.empty(0, ROW_ID)

    def begin_section(self, _place: tuple[int, int]) -> None:
        """Choose which rows of the finished blocks stay; mark the others as not resident."""
        slots = self._slots.in_order(self._shown)
        if not len(slots):
            return
        self._slots.fresh[:] = False
        rows = self._look_up(slots, 0)
        stays, _ = appraise(rows, len(slots), self._kept_bytes)
        self._evicted = self._rows_of(slots)[~stays]
        self.is_resident[self._evicted] = False
        masks = np.split(stays, np.cumsum(self._slots.rows[slots])[:-1])
        self._old = [(slot, np.flatnonzero(mask)) for slot, mask in zip(slots, masks, strict=True) if mask.any()]
        self._is_useless[slots] = [not mask.any() for mask in masks]

    def make_room(self, arriving: int, _pass: int) -> Eviction:
        """Repack some of the rows that stay, as many as one step may write; there is room when all are repacked."""
        most = self._plan.most_retired - self._plan.fresh_per_step - 1
        now, self._old = self._old[:most], self._old[most:]
        packed = []
        segments = self._cache.read_all([int(self._slots.ids[slot]) for slot, _ in now])
        for segment, (slot, stay) in zip(segments, now, strict=True):
            while len(stay):
                stay = stay[self._builder.add(segment, stay) :]
                if len(stay):
                    packed.append(self._builder.take())
            self._is_useless[slot] = True
        if self._old:
            return Eviction(self._retire(len(packed)), packed, np.empty(0, ROW_ID), makes_room=False)
        if not self._builder.is_empty:
            packed.append(self._builder.take())
        evicted, self._evicted = self._evicted, np.empty(0, ROW_ID)
        return Eviction(self._retire(len(packed) + arriving), packed, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Record a commit; every segment added since the last block ended counts as fresh."""
        came = self._slots.fresh.copy()
        super().advance(retired, repacked, fresh)
        self._slots.fresh |= came
        self.rows = int(self._slots.rows[self._shown].sum())

    @property
    def _shown(self) -> Array:
        return self._slots.live & ~self._is_useless

    def _retire(self, coming: int) -> list[int]:
        """Return the ids of the oldest useless segments, as many as `coming` new segments need to replace."""
        to_free = max(0, int(np.count_nonzero(self._slots.live)) + coming - self._plan.most_live)
        slots = self._slots.in_order(self._slots.live & self._is_useless)[:to_free]
        self._is_useless[slots] = False
        return self._slots.ids[slots].tolist()
