"""The rows that StreamSVM, as printed, picks from: rows in the cache that have not been given up.

The reader brings rows a step at a time. They come in one by one between the picks of that step, as printed: while few
rows are left in the cache, picks among all rows of a step at once would be picks among rows that have just come.

A row that is given up stays in its segment until the reader packs that anew, and counts as gone. If it streams by
before, the reader does not bring it. So such rows come back during the next pass, at random times: the reader's order
is random, too.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import Located, ScatteredRows, located
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Arrivals

_FEWEST_LIVE = 0.75  # of the listed rows; picks of the others are not made, nor counted


def score_of(gone: Array) -> Array:
    """Scores (k,) float32 of rows, for the reader: those that are gone leave first."""
    return np.where(gone, np.inf, 0.0).astype(np.float32)


class RowsToPick:
    """Lists of rows by place and id: `listed` ones may be picked unless they are gone, `arriving` ones come in next.

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
        self._cursor.shared.note(self._arriving[1], score_of(np.zeros(len(coming), bool)), is_visit=False)
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
        self._cursor.shared.note(victims, score_of(np.ones(len(victims), bool)), is_visit=False)

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
