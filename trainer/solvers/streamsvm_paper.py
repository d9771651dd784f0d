"""StreamSVM as printed: random picks among the rows in the cache, and random victims when the cache is full.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, Algorithm 2.

Rows that the reader has brought come in one by one; before each, while the cache is full, a random row leaves. Picks
are uniform over the rows in the cache, as printed. What differs: the reader's order changes with each pass, and Omega
is three quarters of the rows that the cache has room for. A row may leave unvisited, so a pass may miss some rows.

The trainer gives a row up when it rests at its bound by more than epsilon. The printed rule for epsilon can hardly be
what was meant, in four respects: most likely 9 is a lost infinity sign; with beta applied at every pick, a full cache
soon has an epsilon of 0; a row that rests far from its margin has a large gradient; and epsilon never falls below the
largest gradient of a row that was ever kept. An option chooses in each respect, see `PickOptions`.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import ScatteredRows, places_of
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import StreamOptions
from streamsvm.trainer.solvers.streamsvm_paper_kernel import (
    Arrivals,
    Listing,
    Ways,
    drawn,
    enter,
    leave,
    paper_visits,
)
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.statistics import DualStatistics, VisitSums
from streamsvm.trainer.updates.variables import Variables

BETA = 0.9
# The cache has room for more rows than Omega: segments with rows given up keep their room until they are packed anew.
FILL = 0.75
_MOST_PICKS, _FEWEST_PICKS = 1024, 32  # drawn at once; no more than there are rows, since some are given up meanwhile
_STREAM = 2  # number of the stream of random numbers: the reader's is another stream of the same seed


@dataclass(frozen=True)
class PickOptions(StreamOptions):
    """Options of the solver streamsvm_paper."""

    epsilon_start: float | None = option(
        None, "first epsilon: 9 as printed, null for the infinity that is most likely meant", gt=0
    )
    epsilon_decay: Literal["pick", "sweep"] = option(
        "pick", 'beta makes epsilon smaller at every pick, as printed, or once a `"sweep"`'
    )
    epsilon_reset: bool = option(
        False,
        "false, as printed: epsilon is made of the gradients of all rows so far; true: of those of the last pass",
    )
    epsilon_gradient: Literal["plain", "projected"] = option(
        "plain", 'epsilon is made of gradients, as printed (Algorithm 2), or of `"projected"` ones (equation 9)'
    )


class Picks:
    """Visits random rows of the cache, and gives rows up by the rule of the paper: the reader evicts these.

    rows  the rows that may be picked: have them `take_in` each step
    """

    def __init__(
        self, settings: TrainerSettings, cursor: Cursor, statistics: DualStatistics, alpha: Array, w: Array
    ) -> None:
        options, kept = settings.options, cursor.checkpoints.kept
        self._table, self._visited = settings.tasks.table, settings.visited
        self._cursor, self._statistics = cursor, statistics
        self._alpha, self._w = alpha, w
        self._resets = options.epsilon_reset
        has_all = settings.cache_rows >= len(alpha)
        self._ways = Ways(
            settings.cache_rows * (1.0 if has_all else FILL),
            BETA,
            np.inf if options.epsilon_reset else float(len(alpha)),
            options.epsilon_decay == "sweep",
            options.epsilon_gradient == "projected",
        )
        # eps, eps_new, picks since eps was set, rows in the cache, picks since beta applied
        epsilon = np.inf if options.epsilon_start is None else options.epsilon_start
        self._rule = kept.get("paper_rule", np.array([epsilon, 0.0, 0.0, 0.0, 0.0]))
        self.rows = _RowsToPick(len(alpha), cursor, self._rule, kept)

    @property
    def epsilon(self) -> float:
        """The |G| above which a row at its bound is given up."""
        return float(self._rule[0])

    @property
    def has_rows(self) -> bool:
        """Whether there is a row to pick, or one that comes in soon."""
        return self._rule[3] > 0 or self.rows.has_arrivals

    def visit_some(self, owed: float, rng: np.random.Generator) -> int:
        """Visit some random rows; return the number of visits. After `owed` visits all new rows have come in."""
        count = int(max(1, min(owed, _MOST_PICKS, max(self._rule[3], _FEWEST_PICKS))))
        picked, arrivals = self.rows.pick(count, count / max(owed, 1.0), rng)
        made = sum(self._visit(rows, arrivals) for rows in picked)
        self.rows.finish(arrivals)
        return made

    def _visit(self, rows: Segment, arrivals: Arrivals) -> int:
        count = 0
        for part, own in self._visited.batches(rows, np.arange(len(rows), dtype=np.int32)):
            picks, M_plus, M_minus, curvature, freed = paper_visits(
                own, part.columns, self._table, self._ways, arrivals, self.rows.listing,
                self._alpha, self._w, self._rule,
            )  # fmt: skip
            self._statistics.add(picks, VisitSums(*np.array([[M_plus], [M_minus], [curvature], [freed], [0.0], [0.0]])))
            count += picks
        self._cursor.shared.note(rows.row_id, self.rows.scores(rows.row_id))
        return count

    def end_pass(self) -> None:
        """Set epsilon to the largest gradient of the pass, if the option epsilon_reset says so."""
        if self._resets and self._rule[2] > 0:
            self._rule[:3] = self._rule[1], 0.0, 0.0

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a later attempt goes on: its Picks find them in `cursor.checkpoints.kept`."""
        return {**self.rows.resumable(), "paper_rule": self._rule}


def streamsvm_paper(
    settings: TrainerSettings, cursor: Cursor, alpha: Array, w: Array
) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place. Yields after every pass; never ends by itself."""
    statistics = DualStatistics(Variables(settings.tasks, alpha, w), cursor.checkpoints.kept)
    picks = Picks(settings, cursor, statistics, alpha.reshape(-1), w.reshape(-1))
    cursor.checkpoints.keep(lambda: {**statistics.resumable(), **picks.resumable()})
    section = 0, 0
    rng = np.random.default_rng((settings.seed, _STREAM, *section))
    while True:
        step = cursor.next()
        if (step.pass_, step.section) != section:
            section = step.pass_, step.section
            # Seeded by job and section, so that a section can be repeated without earlier sections.
            rng = np.random.default_rng((settings.seed, _STREAM, *section))
        picks.rows.take_in(step, rng)
        statistics.owed += settings.options.updates_per_row * step.rows
        # Fewer picks are left for the next step: a call costs as much as some hundred.
        least = 0.0 if step.ends_section else float(_FEWEST_PICKS)
        while (statistics.owed > least or picks.rows.has_arrivals) and picks.has_rows and not cursor.shared.has_to_end:
            statistics.owed -= picks.visit_some(statistics.owed, rng)
        cursor.shared.end_if_due()
        if step.ends_pass:
            picks.end_pass()
            yield statistics.finish_pass(step, cursor.shared.count_unvisited(step), cursor.shared.primal(step))
        if step.ends_section:
            cursor.end_section(w)
        while settings.pace == "adaptive" and picks.has_rows and not (cursor.is_next_ready or cursor.shared.has_to_end):
            picks.visit_some(_MOST_PICKS, rng)


class _RowsToPick:
    """Lists the rows that may be picked, `listing`, and lets in new rows, `arriving`, one by one.

    If all new rows came in at once, and few were left in the cache, picks would mostly be new rows.
    A row that is given up stays in its segment until the reader packs the segment anew. If the row streams by before
    that, the reader does not bring it. So such rows come back during the next pass, at random times, as the reader's
    order is random.

    rule  see `paper_visits`; rule[3] is the number of listed rows
    """

    def __init__(self, n_rows: int, cursor: Cursor, rule: Array, kept: Mapping[str, Array]) -> None:
        self._cursor, self._rule = cursor, rule
        self.listing = Listing(np.empty(n_rows, np.int32), np.full(n_rows, -1, np.int32), np.full(n_rows, -1, np.int64))
        listed = kept.get("paper_listed", _NO_IDS)
        self.listing.ids[: len(listed)], self.listing.slot[listed] = listed, np.arange(len(listed))
        rule[3] = len(listed)
        # The number of the pass, and of its rows that have not streamed by; ids of rows that come back, in their order.
        self._pass, self._left = kept.get("paper_pass", np.zeros(2, np.int64)).tolist()
        self._waiting = kept.get("paper_waiting", _NO_IDS)
        self._rows = ScatteredRows()
        # Segments of the step by id: number in `_rows`, and a copy of its ids; free numbers; what `_rows` has to learn.
        self._segments: dict[int, tuple[int, Array]] = {}
        self._free: list[int] = []
        self._changes: dict[int, Segment | None] = {}
        self._arriving, self._unseen = _NO_IDS, listed

    @property
    def has_arrivals(self) -> bool:
        """Whether some rows have yet to come in."""
        return len(self._arriving) > 0

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a new _RowsToPick goes on, as its `kept`, between two steps."""
        self._let_all_in()
        listed = self.listing.ids[: int(self._rule[3])].copy()
        now = np.array([self._pass, self._left])
        return {"paper_listed": listed, "paper_pass": now, "paper_waiting": self._waiting}

    def take_in(self, step: Step, rng: np.random.Generator) -> None:
        """Take in the rows of a new step: rows that the reader has brought, and rows whose turn it is, will come in."""
        self._let_all_in()
        left = self._forget(self._segments.keys() - {*step.fresh, *step.resident})
        self._learn(step.resident)
        slot, place = self.listing.slot, self.listing.place
        for i in left[(place[left] < 0) & (slot[left] >= 0)].tolist():
            leave(i, self.listing, self._rule)
        if step.pass_ != self._pass:
            self._pass, self._left = step.pass_, step.n_rows
            self._waiting = rng.permutation(np.flatnonzero((place >= 0) & (slot < 0)).astype(np.int32))
        turn = self._whose_turn_it_is(step.rows)
        turn = turn[place[turn] >= 0]
        self._arriving = rng.permutation(np.concatenate([turn, *self._learn(step.fresh)]))
        self._rows.put(self._changes)
        self._changes = {}
        self._cursor.shared.note(self._arriving, np.zeros(len(self._arriving), np.float32), is_visit=False)

    def pick(self, count: int, share: float, rng: np.random.Generator) -> tuple[Iterator[Segment], Arrivals]:
        """Draw `count` random rows, while a share of the arriving rows comes in; call `finish` after the visits.

        Returns copies of the drawn rows, in batches, and the Arrivals that the kernel needs.
        """
        coming = min(len(self._arriving), int(np.ceil(share * len(self._arriving))))
        own, self._arriving = self._arriving[:coming], self._arriving[coming:]
        at, seeds = np.arange(coming) * count // max(coming, 1), rng.integers(1, 1 << 32, 2)
        arrivals = Arrivals(own, at, np.empty(coming, np.int32), np.array([0, 0, 0, seeds[0]]))
        places = np.empty(count, np.int64)
        drawn(int(seeds[1]), int(self._rule[3]), self.listing, arrivals, places)
        return self._rows.batches(places), arrivals

    def finish(self, arrivals: Arrivals) -> None:
        """Have the reader evict the victims: rows that left so that others could come in."""
        victims = arrivals.victims[: arrivals.done[2]]
        self._cursor.shared.note(victims, self.scores(victims), is_visit=False)

    def scores(self, row_id: Array) -> Array:
        """Return the scores (k,) float32 of rows for the reader: rows that are not listed leave the cache first."""
        return np.where(self.listing.slot[row_id] < 0, np.float32(np.inf), np.float32(0.0))

    def _forget(self, segment_ids: Iterable[int]) -> Array:
        """Forget segments that are not there any more; return the ids (k,) of their rows, ascending."""
        left, self._unseen = [self._unseen], _NO_IDS
        for segment_id in segment_ids:
            number, row_id = self._segments.pop(segment_id)
            self._free.append(number)
            self._changes[number] = None
            self.listing.place[row_id] = -1
            left.append(row_id)
        return np.sort(np.concatenate(left))  # sorted: the order of the list depends on nothing else

    def _learn(self, segment_ids: Iterable[int]) -> list[Array]:
        """Learn where the rows of new segments are; return the ids of the rows of each."""
        found: list[Array] = []
        for segment_id in segment_ids:
            if segment_id not in self._segments:
                rows = self._cursor.read(segment_id)
                number = self._free.pop() if self._free else len(self._segments)
                self._segments[segment_id] = number, rows.row_id.copy()
                self._changes[number] = rows
                self.listing.place[rows.row_id] = places_of(number, np.arange(len(rows)))
                found.append(rows.row_id)
        return found

    def _whose_turn_it_is(self, streamed: int) -> Array:
        """Return the ids (k,) of the rows that come back after the pass has streamed `streamed` more rows."""
        now = min(len(self._waiting), -(-len(self._waiting) * streamed // max(self._left, 1)))
        turn, self._waiting = self._waiting[:now], self._waiting[now:]
        self._left -= streamed
        return turn

    def _let_all_in(self) -> None:
        for i in self._arriving.tolist():
            enter(i, self.listing, self._rule)
        self._arriving = _NO_IDS


_NO_IDS = np.empty(0, np.int32)
