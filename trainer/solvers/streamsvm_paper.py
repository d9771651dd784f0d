"""StreamSVM as printed: random picks among the resident rows, and random victims when the cache is full.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, Algorithm 2.

Picks are drawn a segment at a time, the segment with a chance in proportion to its rows: each pick is uniform over the
resident rows, as printed; neighbouring picks come from one segment. A row may leave unvisited, so a pass may miss some.

The trainer gives a row up when it rests at its bound by more than epsilon. The rule for epsilon has four places where
what is printed can hardly be what was meant: most likely 9 is a lost infinity sign; with beta at every pick a full
cache soon has an epsilon of 0; a row that rests far from its margin has a large gradient, and epsilon never falls below
the largest ever met. A job chooses at each, see `Options`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import StreamOptions
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Ways, paper_visits
from streamsvm.trainer.updates.progress import Progress
from streamsvm.trainer.updates.statistics import DualStatistics, Sums
from streamsvm.trainer.updates.variables import Variables

BETA = 0.9
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
        False, "false, as printed: epsilon is made of all gradients met so far; true: of those of the last pass"
    )
    epsilon_gradient: Literal["plain", "projected"] = option(
        "plain", 'epsilon is made of gradients, as printed (Algorithm 2), or of `"projected"` ones (equation 9)'
    )


class Picks:
    """Visits to the resident rows, and which of them have been given up: the reader evicts those first."""

    def __init__(
        self, settings: TrainerSettings, cursor: Cursor, statistics: DualStatistics, alpha: Array, w: Array
    ) -> None:
        options = settings.options
        self._table, self._visited = settings.tasks.table, settings.visited
        self._cursor = cursor
        self._statistics = statistics
        self._alpha = alpha
        self._w = w
        self._gone = cursor.checkpoints.kept.get("gone", np.zeros(len(alpha), bool))
        self._resets = options.epsilon_reset
        self._ways = Ways(
            settings.cache_rows,
            BETA,
            np.inf if options.epsilon_reset else float(len(alpha)),
            options.epsilon_decay == "sweep",
            options.epsilon_gradient == "projected",
        )
        # eps, eps_new, picks since eps was set, rows in the cache, picks since beta applied
        epsilon = np.inf if options.epsilon_start is None else options.epsilon_start
        self._rule = cursor.checkpoints.kept.get("paper_rule", np.array([epsilon, 0.0, 0.0, 0.0, 0.0]))
        self._ids = np.empty(0, np.int64)
        self._sizes = np.empty(0, np.int64)
        self._pass = int(cursor.checkpoints.kept.get("paper_pass", np.zeros(1))[0])

    @property
    def epsilon(self) -> float:
        """|G| from which on a row at its bound is given up."""
        return float(self._rule[0])

    def take_in(self, step: Step) -> None:
        """Pick among the rows of a new step from now on."""
        self._ids = np.array([*step.fresh, *step.resident], np.int64)
        row_ids = [self._cursor.read(segment_id).row_id for segment_id in self._ids.tolist()]
        # A row that is read in again can be picked again; in a new pass all resident rows can.
        for rows in row_ids if step.pass_ != self._pass else row_ids[: len(step.fresh)]:
            self._gone[rows] = False
        self._pass = step.pass_
        self._sizes = np.array([len(rows) for rows in row_ids])
        self._rule[3] = sum(np.count_nonzero(~self._gone[rows]) for rows in row_ids)

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit as many random rows of one segment as it has rows; returns their number."""
        segment_id = int(rng.choice(self._ids, p=self._sizes / self._sizes.sum()))
        rows = self._cursor.read(segment_id)
        order = rng.integers(0, len(rows), len(rows), dtype=np.int32)
        looked_at = np.unique(order)
        looked_at = rows.row_id[looked_at[~self._gone[rows.row_id[looked_at]]]]
        for part, own in self._visited.batches(rows, order):
            M_plus, M_minus, curvature, freed = paper_visits(
                own, part.columns, self._table, self._ways, self._alpha, self._w, self._gone, self._rule
            )
            self._statistics.add(len(own), Sums(*np.array([[M_plus], [M_minus], [curvature], [freed], [0.0], [0.0]])))
        self._cursor.shared.note(looked_at, np.where(self._gone[looked_at], np.inf, 0.0).astype(np.float32))
        return len(order)

    def end_pass(self) -> None:
        """Set epsilon anew if it is to be done once a pass."""
        if self._resets and self._rule[2] > 0:
            self._rule[:3] = self._rule[1], 0.0, 0.0

    def resumable(self) -> dict[str, Array]:
        """The arrays from which the next attempt goes on: its `Picks` find them in `cursor.checkpoints.kept`."""
        return {"gone": self._gone, "paper_rule": self._rule, "paper_pass": np.array([self._pass])}


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
        picks.take_in(step)
        statistics.owed += settings.options.updates_per_row * step.rows
        while statistics.owed > 0 and not cursor.shared.has_to_end:
            statistics.owed -= picks.visit_some(rng)
        cursor.shared.end_if_due()
        if step.ends_pass:
            picks.end_pass()
            yield statistics.finish_pass(step, cursor.shared.count_unvisited(step), cursor.shared.primal(step))
        if step.ends_section:
            cursor.end_section(w)
        while settings.pace == "adaptive" and not (cursor.is_next_ready or cursor.shared.has_to_end):
            picks.visit_some(rng)
