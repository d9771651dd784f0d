"""The rows the cache holds, and the choice of those that leave. Mechanism here, decision in `storage.repack`."""

from dataclasses import dataclass

import numpy as np

from reader.order import RESIDENTS
from storage.cache import CacheWriter
from storage.csr import Array
from storage.plan import CachePlan
from storage.repack import Candidates, plan_repack
from storage.segment import SegmentBuilder, room, view
from storage.state import State, pass_stamp

# To rank more rows than this at every step would cost more than it gains. The segments looked at are then those that
# had the least worth keeping when last looked at (new ones never were), and some others, since scores change.
_ROWS_TO_RANK = 1 << 15
_FEWEST_CANDIDATES = 64


@dataclass(frozen=True)
class Eviction:
    """Segments to remove, and the new ones their surviving rows are packed into."""

    retired: list[int]
    repacked: list[bytes]
    evicted: Array


@dataclass
class _Packed:
    """What is remembered of a live segment: its rows (n,), their packed sizes (n,), bytes of them worth keeping."""

    row_id: Array
    bytes: Array
    worth: float = 0.0


class Residents:
    """Which segments are live, and which rows they hold.

    is_resident (n_rows,) bool; skipped (n_rows,) uint8, stamp of the last pass in which a resident row streamed by
    """

    def __init__(self, cache: CacheWriter, plan: CachePlan, state: State, eviction: str, seed: int) -> None:
        self._cache = cache
        self._plan = plan
        self._state = state
        self._rule = _RULES[eviction]
        self._protects = eviction == "score"
        self._rng = np.random.default_rng((seed, RESIDENTS))
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._live: dict[int, _Packed] = {}
        self._fresh: set[int] = set()  # segments of the last step: their rows have no score yet
        self.rows = 0
        self.is_resident = np.zeros(len(state.alpha), bool)
        self.skipped = np.zeros(len(state.alpha), np.uint8)

    @property
    def segments(self) -> tuple[int, ...]:
        """Ids of the live segments, the oldest first."""
        return tuple(self._live)

    def make_room(self, arriving: int, pass_: int) -> Eviction | None:
        """Choose what leaves so that `arriving` more segments find room. Its rows are no longer resident.

        None if that cannot be done yet, because rows that wait for their visit would have to leave.
        """
        to_free = len(self._live) + arriving - self._plan.most_live
        if to_free <= 0:
            return Eviction([], [], np.empty(0, np.int64))
        ids = self._candidates()
        packed = [self._live[segment_id] for segment_id in ids]
        sizes = [len(segment.row_id) for segment in packed]
        row_id = np.concatenate([segment.row_id for segment in packed])
        candidates = Candidates(
            segment=np.repeat(np.arange(len(packed)), sizes),
            score=self._rule(self._state.score[row_id], self._must_wait(row_id, pass_), self._rng),
            bytes=np.concatenate([segment.bytes for segment in packed]),
        )
        most_retired = max(self._plan.most_retired, to_free)
        plan = plan_repack(candidates, len(packed), to_free, most_retired, room(self._plan.segment_bytes))
        for segment, worth in zip(packed, plan.worth.tolist(), strict=True):
            segment.worth = worth
        starts = np.cumsum([0, *sizes])
        retired = plan.retired.tolist()
        picked = [np.flatnonzero(plan.kept[starts[k] : starts[k + 1]]) for k in retired]
        retired_ids = [ids[k] for k in retired]
        repacked, evicted = self._pack(retired_ids, picked, len(retired) - to_free)
        if self._protects and self._must_wait(evicted, pass_).any():
            return None
        self.is_resident[evicted] = False
        self.rows -= len(evicted)
        return Eviction(retired_ids, repacked, evicted)

    def advance(self, retired: list[int], repacked: dict[int, bytes], fresh: dict[int, bytes]) -> None:
        """Note what a commit changed."""
        for segment_id in retired:
            del self._live[segment_id]
        for segment_id, data in {**repacked, **fresh}.items():
            segment = view(data)
            self._live[segment_id] = _Packed(segment.row_id.copy(), segment.row_bytes)
        self.rows += sum(len(self._live[segment_id].row_id) for segment_id in fresh)
        self._fresh = set(fresh)

    def _candidates(self) -> list[int]:
        """Segments that may be retired: not those of the last step."""
        scored = [segment_id for segment_id in self._live if segment_id not in self._fresh]
        most = max(_FEWEST_CANDIDATES, _ROWS_TO_RANK * len(scored) // max(1, self.rows))
        if len(scored) <= most:
            return scored
        scored.sort(key=lambda segment_id: self._live[segment_id].worth)
        others = self._rng.choice(scored[most * 3 // 4 :], most // 4, replace=False)
        return scored[: most * 3 // 4] + others.tolist()

    def _must_wait(self, row_id: Array, pass_: int) -> Array:
        """Rows that streamed by in this pass as resident and have not been visited in it yet."""
        stamp = pass_stamp(pass_)
        return (self.skipped[row_id] == stamp) & (self._state.visited[row_id] != stamp)

    def _pack(self, retired: list[int], picked: list[Array], most: int) -> tuple[list[bytes], Array]:
        """At most `most` new segments of the picked rows; what found no room counts as evicted."""
        packed: list[bytes] = []
        evicted = []
        for segment_id, rows in zip(retired, picked, strict=True):
            segment = self._cache.read(segment_id)
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


def _by_score(score: Array, must_wait: Array, _rng: np.random.Generator) -> Array:
    return np.where(must_wait, -np.inf, score)


def _at_random(score: Array, _must_wait: Array, rng: np.random.Generator) -> Array:
    """StreamSVM as printed: a random victim, and whatever the trainer gave up (score +inf)."""
    return np.where(score == np.inf, np.inf, rng.random(len(score), np.float32))


_RULES = {"score": _by_score, "paper": _at_random}
