"""Keeps the list of rows in the cache, and evicts rows: `storage.rows.repack` chooses them, this module executes."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from streamsvm.reader.stream.stream_kernel import gather
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.repack import Candidates, appraise, choose_segments, usable_room
from streamsvm.storage.rows.segment import ROW_ID, Segment, SegmentBuilder, most_rows, room, view
from streamsvm.storage.run.state import State, pass_stamp


class SlotTable:
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


# A segment's worth (bytes of rows worth keeping) is computed when it is new, and again now and then, since scores
# change: computing it for all segments at every step would cost more than it gains.
_LOOKED_AT = 0.25
_FEWEST_LOOKED_AT = 32
_MOST_ROWS_LOOKED_AT = 1 << 15

_NO_STAMP = -1
_STREAM = 1  # of random numbers, apart from those that orders are drawn from with the same seed


@dataclass(frozen=True)
class Eviction:
    """A plan to make room: ids of the segments to remove, new segments of the rows that stay, ids of the other rows.

    makes_room  False: the arrivals have to wait for another step
    """

    retired: list[int]
    repacked: list[bytes]
    evicted: Array
    makes_room: bool = True


class Residents:
    """The live segments of the cache, and the rows that they hold.

    is_resident  (n_rows,) bool: rows in the cache
    leaving      (n_rows,) bool: rows that the last commit evicted; the trainer may still be visiting them
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, evicts: str, seed: int) -> None:
        self._cache = cache
        self._plan = plan
        self._state = state
        self._rule = _RULES[evicts]
        self._protects = evicts == "score"
        # Random victims are the trainer's choice. Here the emptiest segments count, and scores change all the time.
        self._looked_at = _LOOKED_AT if evicts == "score" else 1.0
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
        """Ids of the segments that the last commit brought."""
        return self._slots.ids_of(self._shown & self._slots.fresh)

    @property
    def settled(self) -> tuple[int, ...]:
        """Ids of all other segments."""
        return self._slots.ids_of(self._shown & ~self._slots.fresh)

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return int(np.count_nonzero(self._shown))

    @property
    def _shown(self) -> Array:
        """Slots (n_slots,) bool of the segments that the trainer is to see."""
        return self._slots.live

    @property
    def most_fresh(self) -> int:
        """Segments that the next step may bring: it writes no more than the cache's plan allows."""
        return self._plan.most_retired if self._leave_whole else self._plan.fresh_per_step

    def begin_section(self, place: tuple[int, int]) -> None:
        """Begin a section at (pass, pieces of it so far). Later choices depend only on resident rows and scores."""
        self._rng = self._generator(place)
        self._note_left(np.empty(0, ROW_ID))
        self._slots.begin_section()

    def make_room(self, arriving: int, pass_: int) -> Eviction:
        """Choose the rows that leave so that `arriving` more segments have room; they are no longer resident.

        No row leaves, and there is no room, if a row that waits for its visit would have to leave.
        """
        to_free = self.n_segments + arriving - self._plan.most_live
        if to_free <= 0:
            self._note_left(np.empty(0, ROW_ID))
            return Eviction([], [], self._left)
        if self._leave_whole:
            return self._drop(self._slots.scored[:to_free])
        slots = self._slots.scored
        usable = self._appraise(slots, to_free, pass_)
        most_retired = max(self._plan.most_retired, to_free)
        retired = slots[np.sort(choose_segments(self._slots.worth[slots], to_free, most_retired, usable))]
        rows = self._look_up(retired, pass_)
        kept, _ = appraise(rows, len(retired), (len(retired) - to_free) * usable)
        ends = np.cumsum(self._slots.rows[retired]).tolist()
        picked = [np.flatnonzero(kept[start:end]) for start, end in pairwise([0, *ends])]
        repacked, evicted = self._pack(self._slots.ids[retired].tolist(), picked, len(retired) - to_free)
        if self._protects and self._must_wait(evicted, pass_).any():
            return Eviction([], [], np.empty(0, ROW_ID), makes_room=False)
        self._note_left(evicted)
        return Eviction(self._slots.ids[retired].tolist(), repacked, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note a commit: segments that left, that were packed anew, and that came."""
        self._slots.advance(retired, repacked, fresh)
        self.rows = int(self._slots.rows[self._slots.live].sum())

    def admit(self, row_id: Array, segment: dict[int, bytes]) -> None:
        """Add a segment of these rows, which were in the cache before a crash."""
        self.is_resident[row_id] = True
        self.advance([], {}, segment)

    def _generator(self, place: tuple[int, int]) -> np.random.Generator:
        return np.random.default_rng((self._seed, _STREAM, *place))

    @property
    def _leave_whole(self) -> bool:
        """Whether the oldest segments leave as a whole, which costs least.

        They do while the trainer is to sweep over all rows after the pass, on disk; scores are vague yet.
        """
        return bool(self._state.control["collects"])

    def _drop(self, slots: Array) -> Eviction:
        evicted = self._rows_of(slots)
        self._note_left(evicted)
        return Eviction(self._slots.ids[slots].tolist(), [], evicted)

    def _rows_of(self, slots: Array) -> Array:
        return np.concatenate([self._slots.row_id[slot, : self._slots.rows[slot]] for slot in slots.tolist()])

    def _note_left(self, evicted: Array) -> None:
        self.leaving[self._left] = False
        self.leaving[evicted] = True
        self.is_resident[evicted] = False
        self._left = evicted

    def _appraise(self, slots: Array, to_free: int, pass_: int) -> float:
        """Compute the worth of the slots that are new, and of some others; returns the usable room of a segment."""
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
        """The rows of the slots; rows that wait for a visit get a score with which they leave last."""
        table, state = self._slots, self._state
        n_rows = int(table.rows[slots].sum())
        rows = Candidates(np.empty(n_rows, np.int32), np.empty(n_rows, np.float32), np.empty(n_rows, np.int32))
        gather(
            slots, table.rows, table.row_id, table.bytes,
            state.score, state.skipped, state.visited, pass_stamp(pass_) if self._protects else _NO_STAMP,
            rows.segment, rows.score, rows.bytes,
        )  # fmt: skip
        return self._rule(rows, self._rng)

    def _must_wait(self, row_id: Array, pass_: int) -> Array:
        """Which rows (k,) streamed by in this pass while resident, and have not been visited in it: (k,) bool."""
        stamp = pass_stamp(pass_)
        return (self._state.skipped[row_id] == stamp) & (self._state.visited[row_id] != stamp)

    def _pack(self, retired: list[int], picked: list[Array], most: int) -> tuple[list[bytes], Array]:
        """Pack the picked rows into at most `most` new segments; returns these, and the rows that found no room."""
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


def _by_score(rows: Candidates, _rng: np.random.Generator) -> Candidates:
    return rows


def _at_random(rows: Candidates, rng: np.random.Generator) -> Candidates:
    """Evict random rows, after those of score +inf, which the trainer gave up or evicted: StreamSVM as printed."""
    return replace(rows, score=np.where(rows.score == np.inf, np.inf, rng.random(len(rows.score), np.float32)))


_RULES = {"score": _by_score, "random": _at_random}


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
