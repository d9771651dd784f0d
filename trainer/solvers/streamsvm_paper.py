"""StreamSVM as printed: random picks among the rows in the cache, and random victims when the cache is full.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, Algorithm 2.

Rows that the reader has brought come in one by one; before each, while the cache is full, a random row leaves. Picks
are uniform over the rows in the cache, as printed. What differs: the reader's order is another one in each pass, and
Omega is three quarters of the rows that the cache has room for. A row may leave unvisited, so a pass may miss some.

The trainer gives a row up when it rests at its bound by more than epsilon. The rule for epsilon has four places where
what is printed can hardly be what was meant: most likely 9 is a lost infinity sign; with beta at every pick a full
cache soon has an epsilon of 0; a row that rests far from its margin has a large gradient, and epsilon never falls below
the largest of a row that was ever kept. A job chooses at each, see `PickOptions`.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import Located, ScatteredRows, located
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import StreamOptions
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Arrivals, Ways, paper_visits
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.statistics import DualStatistics, VisitSums
from streamsvm.trainer.updates.variables import Variables

_FEWEST_LIVE = 0.75  # of the listed rows; picks of the others are not made, nor counted
BETA = 0.9
# The cache has room for more rows than Omega: segments with rows given up keep their room until they are packed anew.
FILL = 0.75
_MOST_PICKS, _FEWEST_PICKS = 1024, 32  # drawn at once; no more than there are rows, since some are given up meanwhile
_STREAM = 2  # of random numbers, apart from those of the reader, which has the same seed


@dataclass(frozen=True)
class PickOptions(StreamOptions):
    """See `trainer.solvers.options`."""

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
    """Visits to random rows of the cache, and the rule by which rows are given up: the reader evicts those."""

    def __init__(
        self, settings: TrainerSettings, cursor: Cursor, statistics: DualStatistics, alpha: Array, w: Array
    ) -> None:
        options, kept = settings.options, cursor.checkpoints.kept
        self._table, self._visited = settings.tasks.table, settings.visited
        self._cursor, self._statistics = cursor, statistics
        self._alpha, self._w = alpha, w
        self._rows = _RowsToPick(len(alpha), cursor, kept)
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

    @property
    def epsilon(self) -> float:
        """|G| from which on a row at its bound is given up."""
        return float(self._rule[0])

    @property
    def has_rows(self) -> bool:
        """Whether there is a row to pick, now or soon."""
        return self._rule[3] > 0 or self._rows.has_arrivals

    def take_in(self, step: Step, rng: np.random.Generator) -> None:
        """Pick among the rows of a new step from now on; those that are new come in little by little."""
        self._rule[3] = self._rows.take_in(step, rng)

    def visit_some(self, owed: float, rng: np.random.Generator) -> int:
        """Visit some random rows; returns the number of visits. All new rows are in when the visits owed are made."""
        count = int(max(1, min(owed, _MOST_PICKS, max(self._rule[3], _FEWEST_PICKS))))
        picked, arrivals = self._rows.pick(count, count / max(owed, 1.0), rng)
        made = sum(self._visit(rows, arrivals) for rows in picked)
        self._rows.finish(arrivals)
        return made

    def _visit(self, rows: Segment, arrivals: Arrivals) -> int:
        count = 0
        for part, own in self._visited.batches(rows, np.arange(len(rows), dtype=np.int32)):
            picks, M_plus, M_minus, curvature, freed = paper_visits(
                own, part.columns, self._table, self._ways, arrivals,
                self._alpha, self._w, self._rows.gone, self._rule,
            )  # fmt: skip
            self._statistics.add(picks, VisitSums(*np.array([[M_plus], [M_minus], [curvature], [freed], [0.0], [0.0]])))
            count += picks
        self._cursor.shared.note(rows.row_id, _score_of(self._rows.gone[rows.row_id]))
        return count

    def end_pass(self) -> None:
        """Set epsilon anew if it is to be done once a pass."""
        if self._resets and self._rule[2] > 0:
            self._rule[:3] = self._rule[1], 0.0, 0.0

    def resumable(self) -> dict[str, Array]:
        """The arrays from which the next attempt goes on: its `Picks` find them in `cursor.checkpoints.kept`."""
        return {**self._rows.resumable(), "paper_rule": self._rule}


def streamsvm_paper(
    settings: TrainerSettings, cursor: Cursor, alpha: Array, w: Array
) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place; yields after every pass, for ever."""
    statistics = DualStatistics(Variables(settings.tasks, alpha, w), cursor.checkpoints.kept)
    picks = Picks(settings, cursor, statistics, alpha.reshape(-1), w.reshape(-1))
    cursor.checkpoints.keep(lambda: {**statistics.resumable(), **picks.resumable()})
    section = 0, 0
    rng = np.random.default_rng((settings.seed, _STREAM, *section))
    while True:
        step = cursor.next()
        if (step.pass_, step.section) != section:
            section = step.pass_, step.section
            # Seeded by job and section: a section can be repeated without those before it.
            rng = np.random.default_rng((settings.seed, _STREAM, *section))
        picks.take_in(step, rng)
        statistics.owed += settings.options.updates_per_row * step.rows
        while statistics.owed > 0 and picks.has_rows and not cursor.shared.has_to_end:
            statistics.owed -= picks.visit_some(statistics.owed, rng)
        cursor.shared.end_if_due()
        if step.ends_pass:
            picks.end_pass()
            yield statistics.finish_pass(step, cursor.shared.count_unvisited(step), cursor.shared.primal(step))
        if step.ends_section:
            cursor.end_section(w)
        while settings.pace == "adaptive" and picks.has_rows and not (cursor.is_next_ready or cursor.shared.has_to_end):
            picks.visit_some(_MOST_PICKS, rng)


def _score_of(gone: Array) -> Array:
    """Scores (k,) float32 of rows, for the reader: those that are gone leave first."""
    return np.where(gone, np.inf, 0.0).astype(np.float32)


class _RowsToPick:
    """Lists of rows by place and id: `listed` ones may be picked unless they are gone, `arriving` ones come in next.

    While few rows are left in the cache, picks among all rows of a step at once would be picks among rows that have
    just come. A row that is given up stays in its segment until the reader packs that anew, and counts as gone. If it
    streams by before, the reader does not bring it. So such rows come back during the next pass, at random times: the
    reader's order is random, too.

    gone  (n_rows,) bool by row_id: rows given up or evicted, and rows that have not come in yet
    """

    def __init__(self, n_rows: int, cursor: Cursor, kept: Mapping[str, Array]) -> None:
        self._cursor = cursor
        self.gone = kept.get("gone", np.zeros(n_rows, bool))
        # The pass, and its rows that have not streamed by; rows that come back meanwhile, in this order.
        self._pass, self._left = kept.get("paper_pass", np.zeros(2, np.int64)).tolist()
        self._waiting = kept.get("paper_waiting", np.empty(0, np.int32))
        self._is_due = np.zeros(n_rows, bool)
        self._rows = ScatteredRows([])
        self._located: dict[int, Located] = {}  # segments of the step, by id
        self._listed = self._arriving = _no_rows()

    @property
    def has_arrivals(self) -> bool:
        """Whether rows are to come in."""
        return len(self._arriving[0]) > 0

    def resumable(self) -> dict[str, Array]:
        """The arrays from which new RowsToPick go on, as their `kept`, between two steps."""
        self._let_all_in()
        return {"gone": self.gone, "paper_pass": np.array([self._pass, self._left]), "paper_waiting": self._waiting}

    def take_in(self, step: Step, rng: np.random.Generator) -> int:
        """List the rows of a new step; returns how many may be picked before others come in."""
        self._let_all_in()
        self._located = {segment_id: self._locate(segment_id) for segment_id in (*step.fresh, *step.resident)}
        segments = list(self._located.values())
        n_fresh = sum(len(each.rows) for each in segments[: len(step.fresh)])
        self._rows = ScatteredRows(segments)
        row_id = np.concatenate([each.rows.row_id for each in segments])
        places = self._rows.places
        gone = self.gone[row_id]
        gone[:n_fresh] = True
        if step.pass_ != self._pass:
            self._pass, self._left = step.pass_, step.n_rows
            self._waiting = rng.permutation(row_id[n_fresh:][gone[n_fresh:]])
        comes = self._whose_turn_it_is(row_id, step.rows) & gone
        comes[:n_fresh] = True
        coming = rng.permutation(np.flatnonzero(comes))
        self._arriving = places[coming], row_id[coming]
        self.gone[self._arriving[1]] = True
        self._cursor.shared.note(self._arriving[1], _score_of(np.zeros(len(coming), bool)), is_visit=False)
        self._listed = places[~gone], row_id[~gone]
        return len(self._listed[0])

    def _locate(self, segment_id: int) -> Located:
        rows, last = self._cursor.read(segment_id), self._located.get(segment_id)
        return last if last is not None and last.rows is rows else located(rows)

    def pick(self, count: int, share: float, rng: np.random.Generator) -> tuple[Iterator[Segment], Arrivals]:
        """Draw random rows, `count` of them, while a share of the arriving ones come in; `finish` it after the visits.

        Returns copies of the rows, batch after batch, and what the kernel has to know of arrivals.
        """
        if np.count_nonzero(self.gone[self._listed[1]]) > (1 - _FEWEST_LIVE) * len(self._listed[0]):
            live = ~self.gone[self._listed[1]]
            self._listed = self._listed[0][live], self._listed[1][live]
        before = len(self._listed[0])
        coming = min(len(self._arriving[0]), int(np.ceil(share * len(self._arriving[0]))))
        at = np.arange(coming) * count // max(coming, 1)
        self._listed = _joined(self._listed, _cut(self._arriving, slice(coming)))
        own, self._arriving = self._arriving[1][:coming], _cut(self._arriving, slice(coming, None))
        in_ = before + np.searchsorted(at, np.arange(count), "right")
        picked = (rng.random(count) * in_).astype(np.int64)
        victims = self._listed[1][rng.integers(0, max(before, 1), 2 * coming if before else 0)]
        arrivals = Arrivals(own, at, victims, np.zeros(3, np.int64))
        return self._rows.batches(self._listed[0][picked]), arrivals

    def finish(self, arrivals: Arrivals) -> None:
        """Have the reader evict the rows that were evicted to let others in."""
        victims = arrivals.victims[: arrivals.done[2]]
        victims = victims[self.gone[victims]]
        self._cursor.shared.note(victims, _score_of(np.ones(len(victims), bool)), is_visit=False)

    def _whose_turn_it_is(self, row_id: Array, streamed: int) -> Array:
        """Tell which rows (k,) come back when the pass has streamed on by so many rows, (k,) bool."""
        now = min(len(self._waiting), -(-len(self._waiting) * streamed // max(self._left, 1)))
        turn, self._waiting = self._waiting[:now], self._waiting[now:]
        self._left -= streamed
        self._is_due[turn] = True
        due = self._is_due[row_id]
        self._is_due[turn] = False
        return due

    def _let_all_in(self) -> None:
        self.gone[self._arriving[1]] = False
        self._arriving = _no_rows()


_Listed = tuple[Array, Array]  # places and ids


def _no_rows() -> _Listed:
    return np.empty(0, np.int64), np.empty(0, np.int32)


def _cut(rows: _Listed, some: slice) -> _Listed:
    return rows[0][some], rows[1][some]


def _joined(rows: _Listed, others: _Listed) -> _Listed:
    return np.concatenate([rows[0], others[0]]), np.concatenate([rows[1], others[1]])
