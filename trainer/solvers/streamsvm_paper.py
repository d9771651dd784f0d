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

_FEWEST_LIVE = 0.75  # least share of listed rows that are not gone; picks of gone rows are not made, nor counted
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
    """Visits random rows of the cache, and gives rows up by the rule of the paper: the reader evicts these."""

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
        """The |G| above which a row at its bound is given up."""
        return float(self._rule[0])

    @property
    def has_rows(self) -> bool:
        """Whether there is a row to pick, or one that comes in soon."""
        return self._rule[3] > 0 or self._rows.has_arrivals

    def take_in(self, step: Step, rng: np.random.Generator) -> None:
        """Let picks be among the rows of a new step from now on; rows new to the cache come in one by one."""
        self._rule[3] = self._rows.take_in(step, rng)

    def visit_some(self, owed: float, rng: np.random.Generator) -> int:
        """Visit some random rows; return the number of visits. After `owed` visits all new rows have come in."""
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
        """Set epsilon to the largest gradient of the pass, if the option epsilon_reset says so."""
        if self._resets and self._rule[2] > 0:
            self._rule[:3] = self._rule[1], 0.0, 0.0

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a later attempt goes on: its Picks find them in `cursor.checkpoints.kept`."""
        return {**self._rows.resumable(), "paper_rule": self._rule}


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
    """Return the scores (k,) float32 of rows for the reader: rows that are gone leave the cache first."""
    return np.where(gone, np.inf, 0.0).astype(np.float32)


class _RowsToPick:
    """Lists rows by location and id: `listed` rows may be picked unless they are gone, `arriving` rows come in next.

    New rows come in one by one: if all came at once, and few were left in the cache, picks would mostly be new rows.
    A row that is given up stays in its segment until the reader packs the segment anew, and counts as gone. If the row
    streams by before that, the reader does not bring it. So such rows come back during the next pass, at random times,
    as the reader's order is random.

    gone  (n_rows,) bool by row_id: rows given up or evicted, and rows that have not come in yet
    """

    def __init__(self, n_rows: int, cursor: Cursor, kept: Mapping[str, Array]) -> None:
        self._cursor = cursor
        self.gone = kept.get("gone", np.zeros(n_rows, bool))
        # The number of the pass, and of its rows that have not streamed by; ids of rows that come back, in their order.
        self._pass, self._left = kept.get("paper_pass", np.zeros(2, np.int64)).tolist()
        self._waiting = kept.get("paper_waiting", np.empty(0, np.int32))
        self._is_due = np.zeros(n_rows, bool)
        self._rows = ScatteredRows([])
        self._located: dict[int, Located] = {}  # segments of the step, by id
        self._listed = self._arriving = _no_rows()

    @property
    def has_arrivals(self) -> bool:
        """Whether some rows have yet to come in."""
        return len(self._arriving[0]) > 0

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a new _RowsToPick goes on, as its `kept`, between two steps."""
        self._let_all_in()
        return {"gone": self.gone, "paper_pass": np.array([self._pass, self._left]), "paper_waiting": self._waiting}

    def take_in(self, step: Step, rng: np.random.Generator) -> int:
        """List the rows of a new step; return the number of rows that may be picked before any comes in."""
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
        """Draw `count` random rows, while a share of the arriving rows comes in; call `finish` after the visits.

        Returns copies of the drawn rows, in batches, and the Arrivals that the kernel needs.
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
        """Have the reader evict the victims: rows that left so that others could come in."""
        victims = arrivals.victims[: arrivals.done[2]]
        victims = victims[self.gone[victims]]
        self._cursor.shared.note(victims, _score_of(np.ones(len(victims), bool)), is_visit=False)

    def _whose_turn_it_is(self, row_id: Array, streamed: int) -> Array:
        """Return which rows (k,) come back after the pass has streamed `streamed` more rows, (k,) bool."""
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


_Listed = tuple[Array, Array]  # locations (in ScatteredRows) and ids


def _no_rows() -> _Listed:
    return np.empty(0, np.int64), np.empty(0, np.int32)


def _cut(rows: _Listed, some: slice) -> _Listed:
    return rows[0][some], rows[1][some]


def _joined(rows: _Listed, others: _Listed) -> _Listed:
    return np.concatenate([rows[0], others[0]]), np.concatenate([rows[1], others[1]])
