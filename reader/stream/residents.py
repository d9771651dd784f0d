"""The rows the cache holds, and the choice of those that leave. `storage.rows.repack` decides, this module executes."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from streamsvm.reader.stream.order import RESIDENTS
from streamsvm.reader.stream.residents_kernel import gather
from streamsvm.reader.stream.slots import Slots
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.repack import Candidates, appraise, choose_segments, usable_room
from streamsvm.storage.rows.segment import ROW_ID, SegmentBuilder, room
from streamsvm.storage.run.state import State, pass_stamp

# The worth of a segment's rows is computed when the segment is new, and anew now and then, since scores change. Doing
# so for all segments at every step would cost more than it gains.
_LOOKED_AT = 0.25
_FEWEST_LOOKED_AT = 32
_MOST_ROWS_LOOKED_AT = 1 << 15

_NO_STAMP = -1


@dataclass(frozen=True)
class Eviction:
    """Segments to remove, and the new ones their surviving rows are packed into.

    makes_room  if not, the arrivals have to wait for another step
    """

    retired: list[int]
    repacked: list[bytes]
    evicted: Array
    makes_room: bool = True


class Residents:
    """Which segments are live, and which rows they hold.

    is_resident (n_rows,) bool
    leaving     (n_rows,) bool   evicted by the last commit: the trainer may be visiting them still
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, evicts: str, seed: int) -> None:
        self._cache = cache
        self._plan = plan
        self._state = state
        self._rule = _RULES[evicts]
        self._protects = evicts == "score"
        self._seed = seed
        self._rng = self._generator((1, 0))
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._slots = Slots(plan)
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
        """Ids of all segments but the fresh ones."""
        return self._slots.ids_of(self._shown & ~self._slots.fresh)

    @property
    def n_segments(self) -> int:
        """Number of segments, fresh or not."""
        return int(np.count_nonzero(self._shown))

    @property
    def _shown(self) -> Array:
        """Slots (n_slots,) bool of segments that have rows the trainer is to see."""
        return self._slots.live

    @property
    def most_fresh(self) -> int:
        """Segments that the next step may bring: it writes no more than the cache's plan allows."""
        return self._plan.most_retired if self._leave_whole else self._plan.fresh_per_step

    def begin_section(self, place: tuple[int, int]) -> None:
        """Begin a section at a place (pass, pieces of the pass so far).

        What leaves from here on depends only on the place, the resident rows and their scores.
        """
        self._rng = self._generator(place)
        self._note_left(np.empty(0, ROW_ID))
        self._slots.begin_section()

    def make_room(self, arriving: int, pass_: int) -> Eviction:
        """Choose what leaves so that `arriving` more segments find room. Its rows are no longer resident.

        Nothing leaves, and there is no room, if rows that wait for their visit would have to leave.
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
        """A segment of these rows that was in the cache before a crash."""
        self.is_resident[row_id] = True
        self.advance([], {}, segment)

    def _generator(self, place: tuple[int, int]) -> np.random.Generator:
        return np.random.default_rng((self._seed, RESIDENTS, *place))

    @property
    def _leave_whole(self) -> bool:
        """Whether segments leave as they came, the oldest first, for that costs least.

        While the trainer takes all rows to its own disk: they will be visited there, and what they have to teach is not
        known well yet.
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
        """Find out what the new ones of the slots are worth, and some others; returns the usable room of a segment."""
        table = self._slots
        most = _MOST_ROWS_LOOKED_AT * len(slots) // max(1, self.rows)
        others = slots[~table.is_new[slots]]
        some = min(len(others), max(_FEWEST_LOOKED_AT, min(most, int(_LOOKED_AT * len(others)))))
        looked_at = np.concatenate((slots[table.is_new[slots]], self._rng.permutation(others)[:some]))
        rows = self._look_up(looked_at, pass_)
        usable = usable_room(rows.bytes, room(self._plan.segment_bytes))
        share = len(looked_at) / len(slots)
        _, table.worth[looked_at] = appraise(rows, len(looked_at), (len(slots) - to_free) * usable * share)
        table.is_new[looked_at] = False
        return usable

    def _look_up(self, slots: Array, pass_: int) -> Candidates:
        """The rows of the slots; those that wait for a visit stay as long as there is room at all."""
        table, state = self._slots, self._state
        n_rows = int(table.rows[slots].sum())
        found = Candidates(np.empty(n_rows, np.int32), np.empty(n_rows, np.float32), np.empty(n_rows, np.int32))
        gather(
            slots, table.rows, table.row_id, table.bytes,
            state.score, state.skipped, state.visited, pass_stamp(pass_) if self._protects else _NO_STAMP,
            found.segment, found.score, found.bytes,
        )  # fmt: skip
        return self._rule(found, self._rng)

    def _must_wait(self, row_id: Array, pass_: int) -> Array:
        """Rows that streamed by in this pass as resident and have not been visited in it yet."""
        stamp = pass_stamp(pass_)
        return (self._state.skipped[row_id] == stamp) & (self._state.visited[row_id] != stamp)

    def _pack(self, retired: list[int], picked: list[Array], most: int) -> tuple[list[bytes], Array]:
        """Pack the picked rows into at most `most` new segments; rows that find no room count as evicted."""
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
    """StreamSVM as printed: a random victim, and whatever the trainer gave up (score +inf)."""
    return replace(rows, score=np.where(rows.score == np.inf, np.inf, rng.random(len(rows.score), np.float32)))


_RULES = {"score": _by_score, "random": _at_random}
