"""StreamSVM as printed: random picks among the rows in the cache, and random victims when the cache is full.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, Algorithm 2.

Rows that the reader has brought come in one by one; before each, while the cache is full, a random row leaves. Picks
are uniform over the rows in the cache, as printed. What differs: the reader's order is another one in each pass, and
Omega is three quarters of the rows that the cache has room for. A row may leave unvisited, so a pass may miss some.

The trainer gives a row up when it rests at its bound by more than epsilon. The rule for epsilon has four places where
what is printed can hardly be what was meant: most likely 9 is a lost infinity sign; with beta at every pick a full
cache soon has an epsilon of 0; a row that rests far from its margin has a large gradient, and epsilon never falls below
the largest of a row that was ever kept. A job chooses at each, see `Options`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import StreamOptions
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Arrivals, Ways, paper_visits
from streamsvm.trainer.solvers.streamsvm_paper_rows import RowsToPick, score_of
from streamsvm.trainer.updates.progress import Progress
from streamsvm.trainer.updates.statistics import DualStatistics, Sums
from streamsvm.trainer.updates.variables import Variables

BETA = 0.9
# The cache has room for more rows than Omega: segments with rows given up keep their room until they are packed anew.
FILL = 0.75
_MOST_PICKS, _FEWEST_PICKS = 1024, 32  # drawn at once; no more than there are rows, since some are given up meanwhile
_STREAM = 2  # of random numbers, apart from those of the reader, which has the same seed


@dataclass(frozen=True)
class Options(StreamOptions):
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
        self._rows = RowsToPick(len(alpha), cursor, kept)
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
            self._statistics.add(picks, Sums(*np.array([[M_plus], [M_minus], [curvature], [freed], [0.0], [0.0]])))
            count += picks
        self._cursor.shared.note(rows.row_id, score_of(self._rows.gone[rows.row_id]))
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
) -> Generator[Progress, None, None]:
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
