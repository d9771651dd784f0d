"""The rows the cache holds, and the choice of those that leave. Mechanism here, decision in `storage.repack`."""

from dataclasses import dataclass, replace

import numpy as np

from reader.order import RESIDENTS
from reader.residents_kernel import gather
from storage.cache import CacheWriter
from storage.csr import Array
from storage.plan import CachePlan
from storage.repack import Candidates, plan_repack
from storage.segment import ROW_ID, SegmentBuilder, most_rows, room, view
from storage.state import State, pass_stamp

# To rank more rows than this at every step would cost more than it gains. The segments looked at are then those that
# had the least worth keeping when last looked at (new ones never were), and some others, since scores change.
_ROWS_TO_RANK = 1 << 15
_FEWEST_CANDIDATES = 64

_NO_STAMP = -1


@dataclass(frozen=True)
class Eviction:
    """Segments to remove, and the new ones their surviving rows are packed into."""

    retired: list[int]
    repacked: list[bytes]
    evicted: Array


class Residents:
    """Which segments are live, and which rows they hold.

    is_resident (n_rows,) bool
    leaving     (n_rows,) bool   evicted by the last commit: the trainer may be visiting them still
    skipped     (n_rows,) uint8  stamp of the last pass in which the row streamed by while resident
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, eviction: str, seed: int) -> None:
        self._cache = cache
        self._plan = plan
        self._state = state
        self._rule = _RULES[eviction]
        self._protects = eviction == "score"
        self._rng = np.random.default_rng((seed, RESIDENTS))
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._slots = _Slots(plan)
        self._fresh: set[int] = set()  # segments of the last step: their rows have no score yet
        self._left = np.empty(0, ROW_ID)
        self.rows = 0
        self.is_resident = np.zeros(len(state.alpha), bool)
        self.leaving = np.zeros(len(state.alpha), bool)
        self.skipped = np.zeros(len(state.alpha), np.uint8)

    @property
    def segments(self) -> tuple[int, ...]:
        """Ids of the live segments, the oldest first."""
        return tuple(self._slots.of)

    def make_room(self, arriving: int, pass_: int) -> Eviction | None:
        """Choose what leaves so that `arriving` more segments find room. Its rows are no longer resident.

        None if that cannot be done yet, because rows that wait for their visit would have to leave.
        """
        to_free = len(self._slots.of) + arriving - self._plan.most_live
        if to_free <= 0:
            self._note_left(np.empty(0, ROW_ID))
            return Eviction([], [], self._left)
        ids = self._candidates()
        slots = self._slots.numbers(ids)
        candidates = self._rule(self._look_up(slots, pass_), self._rng)
        most_retired = max(self._plan.most_retired, to_free)
        plan = plan_repack(candidates, len(slots), to_free, most_retired, room(self._plan.segment_bytes))
        self._slots.worth[slots] = plan.worth
        retired = [ids[k] for k in plan.retired.tolist()]
        ends = np.cumsum(self._slots.rows[slots])
        picked = [np.flatnonzero(plan.kept[ends[k] - self._slots.rows[slots[k]] : ends[k]]) for k in plan.retired]
        repacked, evicted = self._pack(retired, picked, len(retired) - to_free)
        if self._protects and self._must_wait(evicted, pass_).any():
            return None
        self._note_left(evicted)
        return Eviction(retired, repacked, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note what a commit changed."""
        for segment_id in retired:
            self._slots.remove(segment_id)
        for segment_id, data in {**repacked, **fresh}.items():
            self._slots.put(segment_id, data)
        self.rows += int(self._slots.rows[self._slots.numbers(list(fresh))].sum())
        self._fresh = set(fresh)

    def _note_left(self, evicted: Array) -> None:
        self.leaving[self._left] = False
        self.leaving[evicted] = True
        self.is_resident[evicted] = False
        self.rows -= len(evicted)
        self._left = evicted

    def _candidates(self) -> list[int]:
        """Segments that may be retired: not those of the last step."""
        scored = [segment_id for segment_id in self._slots.of if segment_id not in self._fresh]
        most = max(_FEWEST_CANDIDATES, _ROWS_TO_RANK * len(scored) // max(1, self.rows))
        if len(scored) <= most:
            return scored
        by_worth = np.argsort(self._slots.worth[self._slots.numbers(scored)], kind="stable").tolist()
        others = self._rng.choice(by_worth[most * 3 // 4 :], most // 4, replace=False)
        return [scored[k] for k in (*by_worth[: most * 3 // 4], *others.tolist())]

    def _look_up(self, slots: Array, pass_: int) -> Candidates:
        """The rows of the slots; those that wait for a visit stay as long as there is room at all."""
        table, state = self._slots, self._state
        n_rows = int(table.rows[slots].sum())
        found = Candidates(np.empty(n_rows, np.int32), np.empty(n_rows, np.float32), np.empty(n_rows, np.int32))
        gather(
            slots, table.rows, table.row_id, table.bytes,
            state.score, self.skipped, state.visited, pass_stamp(pass_) if self._protects else _NO_STAMP,
            found.segment, found.score, found.bytes,
        )  # fmt: skip
        return found

    def _must_wait(self, row_id: Array, pass_: int) -> Array:
        """Rows that streamed by in this pass as resident and have not been visited in it yet."""
        stamp = pass_stamp(pass_)
        return (self.skipped[row_id] == stamp) & (self._state.visited[row_id] != stamp)

    def _pack(self, retired: list[int], picked: list[Array], most: int) -> tuple[list[bytes], Array]:
        """At most `most` new segments of the picked rows; what found no room counts as evicted."""
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


class _Slots:
    """A table of the rows of live segments, a line for each.

    of      segment id -> line, the oldest segment first
    rows    (n_slots,) number of rows; row_id, bytes (n_slots, most_rows): the rows and their packed sizes
    worth   (n_slots,) bytes of rows worth keeping, when last looked at
    """

    def __init__(self, plan: CachePlan) -> None:
        # Only what is written to takes memory; few segments are full of the shortest rows.
        shape = plan.most_live, most_rows(plan.segment_bytes)
        self.of: dict[int, int] = {}
        self._free = list(range(plan.most_live))
        self.rows = np.zeros(plan.most_live, np.int64)
        self.row_id = np.empty(shape, np.int32)
        self.bytes = np.empty(shape, np.int32)
        self.worth = np.zeros(plan.most_live)

    def numbers(self, segment_ids: list[int]) -> Array:
        """Lines of the segments, (k,) int64."""
        return np.fromiter((self.of[segment_id] for segment_id in segment_ids), np.int64, len(segment_ids))

    def put(self, segment_id: int, data: bytes) -> None:
        slot = self.of[segment_id] = self._free.pop()
        segment = view(data)
        self.rows[slot] = len(segment)
        self.row_id[slot, : len(segment)] = segment.row_id
        self.bytes[slot, : len(segment)] = segment.row_bytes
        self.worth[slot] = 0.0

    def remove(self, segment_id: int) -> None:
        self._free.append(self.of.pop(segment_id))


def _by_score(rows: Candidates, _rng: np.random.Generator) -> Candidates:
    return rows


def _at_random(rows: Candidates, rng: np.random.Generator) -> Candidates:
    """StreamSVM as printed: a random victim, and whatever the trainer gave up (score +inf)."""
    return replace(rows, score=np.where(rows.score == np.inf, np.inf, rng.random(len(rows.score), np.float32)))


_RULES = {"score": _by_score, "paper": _at_random}
