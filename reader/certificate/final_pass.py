"""The certificate pass: reads all rows once, with w and alpha fixed, and computes the exact objectives P and D."""

from dataclasses import dataclass
from threading import Lock, local

import numpy as np

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.reader.certificate.kept_values import HeldOut, LargestValues
from streamsvm.reader.certificate.metrics import NumberErrors
from streamsvm.storage.errors import RowsMissing
from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.models.decision import KernelMachine, predicted_classes, squared_norm
from streamsvm.storage.models.support_vectors import KernelState
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import zeros
from streamsvm.trainer.problem.objective import Objective, add_to_w, dots_of, sizes_of
from streamsvm.trainer.problem.tasks import Tasks

_PIECE = 1 << 16  # features of w that are summed at once


@dataclass(frozen=True)
class FinalFigures:
    """The certificate: P(w), D(alpha), largest and smallest projected gradient (M_plus, M_minus), (n_figures,) each.

    w_error is |w - v| / |w|, where v = sum_i alpha_i y_i x_i. D is computed from v, after alpha has been projected into
    its bounds: so the gap P - D bounds the suboptimality of w, even if training has computed w or alpha wrongly.
    """

    primal_objective: Array
    dual_objective: Array
    M_plus: Array
    M_minus: Array
    w_error: Array


class CertificatePass:
    """Computes the certificate: `add` all rows once, in any order and on any threads, then call `result`.

    w         (features, width), not changed
    alpha     (n_rows, width), not changed: the pass uses a copy of each row's alpha, projected into its bounds
    held_out  receives the decision values of rows that tasks leave out; None: no task leaves rows out
    machine   a kernel machine to certify in place of w; the certificate's D is then unknown (nan)
    parts     receives the decision values of models whose classes several runs train; None: there are none
    visited   the feature maps that are applied to rows at each visit
    training  the scores of models on the rows added
    """

    def __init__(
        self,
        objective: Objective,
        w: Array,
        alpha: Array,
        held_out: HeldOut | None = None,
        machine: KernelState | None = None,
        visited: Visited = UNMAPPED,
        parts: LargestValues | None = None,
    ) -> None:
        self._visited = visited
        self._lock = Lock()
        self._held_out, self._parts = held_out, parts
        self._objective, self.training = objective, TrainingScores(objective.tasks)
        n_figures = objective.tasks.n_figures
        if machine:
            self._sums: _KernelSums | _SideBySide | _TaskSums = _KernelSums(machine)
        else:
            self._sums = _SideBySide(w) if w.shape[1] == 1 else _TaskSums(w, n_figures)
        self._alpha = alpha
        self._rows = 0
        self._losses, self._dual, self._sizes = np.zeros((3, n_figures))
        self._M_plus, self._M_minus = np.full(n_figures, -np.inf), np.full(n_figures, np.inf)

    def add(self, rows: Segment) -> None:
        """Add the rows' terms to all sums."""
        for batch in self._visited.all_batches(rows):
            self._add(batch)

    def _add(self, rows: Segment) -> None:
        objective = self._objective
        terms = objective.tasks.terms(rows)
        own = objective.projected(terms, self._alpha[rows.row_id])
        coefficients = objective.coefficients(terms, own)
        dots, sizes = self._sums.add(coefficients, rows, self._lock), sizes_of(rows, coefficients)
        m = objective.m(terms, dots)
        M_plus, M_minus = objective.extremes(terms, m, own)
        losses, dual = objective.losses(terms, m), objective.dual(terms, own)
        if self._parts is not None:
            self._parts.add(rows, dots)
        with self._lock:
            if self._held_out is not None:
                y = terms.target[:, np.newaxis] if objective.tasks.is_regression else terms.sign
                self._held_out.add(rows.row_id, objective.tasks.left_out(rows), y, dots, rows.weight)
            self.training.add(rows, dots)
            self._rows += len(rows)
            self._losses += losses
            self._dual += dual
            self._sizes += sizes.sum() if len(self._sizes) == 1 else sizes[: len(self._sizes)]
            self._M_plus, self._M_minus = np.maximum(self._M_plus, M_plus), np.minimum(self._M_minus, M_minus)

    def result(self) -> FinalFigures:
        """Return the certificate. Raises RowsMissing unless `add` has seen exactly n_rows rows."""
        if self._rows != len(self._alpha):
            raise RowsMissing(f"{self._rows} rows were added to the certificate, the dataset has {len(self._alpha)}")
        w_w, v_v, difference = self._sums.squared_norms()
        return FinalFigures(
            primal_objective=w_w / 2 + self._losses,
            dual_objective=self._dual - v_v / 2,
            M_plus=self._M_plus,
            M_minus=self._M_minus,
            w_error=np.sqrt(difference) / np.maximum(np.sqrt(w_w), 1e-300),
        )

    @property
    def relative_size(self) -> float:
        """The largest of the tasks' sums sum_i |alpha_i| |x_i| / |w|, see `reader.stream.resume.check_w_error`."""
        w_w, _, _ = self._sums.squared_norms()
        return float(np.max(self._sizes / np.maximum(np.sqrt(w_w), 1e-300)))

    @property
    def w_of_alpha(self) -> Array:
        """v = sum_i alpha_i y_i x_i over the rows added, with the shape of w. A kernel machine has no v."""
        assert not isinstance(self._sums, _KernelSums)
        return self._sums.v


class _TaskSums:
    """The sums of several tasks: w and v = sum_i alpha_i y_i x_i, both (features, width)."""

    def __init__(self, w: Array, n_figures: int) -> None:
        self._w, self._n_figures = w, n_figures
        self.v = zeros(*w.shape)

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        """Return <w, x_i> of the rows, (n, width), and add coefficients[i] x_i to v; coefficients (n, width)."""
        dots = dots_of(rows, self._w)
        with lock:
            add_to_w(rows, coefficients, self.v)
        return dots

    def squared_norms(self) -> Array:
        """Return |w|^2, |v|^2 and |w - v|^2, (3, n_figures), summed over pieces of w, to avoid a copy of all of w."""
        total = np.zeros((3, self._w.shape[1]))
        for start in range(0, len(self._w), _PIECE):
            w, v = self._w[start : start + _PIECE], self.v[start : start + _PIECE]
            for number, part in enumerate((w, v, w - v)):
                total[number] += np.einsum("fl,fl->l", part, part)
        return total if self._n_figures > 1 else total.sum(axis=1, keepdims=True)


class _SideBySide:
    """The sums of one task: w_j and v_j side by side in memory, in a separate copy for each thread that adds rows.

    One loop over a row computes <w, x> and adds to v, with half of the cache misses of two loops.
    """

    def __init__(self, w: Array) -> None:
        self._w, self._of_thread = w, local()
        self._every: list[Array] = []

    @property
    def v(self) -> Array:
        return self._whole()[:, 1:]

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        if not hasattr(self._of_thread, "pairs"):
            self._of_thread.pairs = self._make_pairs()
            with lock:
                self._every.append(self._of_thread.pairs)
        dots, pairs = np.empty((len(rows), 1)), self._of_thread.pairs.reshape(-1)
        dots_and_sums(coefficients.reshape(-1), *rows.csr, pairs, dots.reshape(-1))
        return dots

    def squared_norms(self) -> Array:
        total, pairs = np.zeros((3, 1)), self._whole()
        for start in range(0, len(pairs), _PIECE):
            w, v = np.ascontiguousarray(pairs[start : start + _PIECE].T)
            total[:, 0] += w @ w, v @ v, (w - v) @ (w - v)
        return total

    def _whole(self) -> Array:
        """Add up the v of all threads; return the pairs (w, v). Call it when no thread adds rows any more."""
        whole, *others = self._every or [self._make_pairs()]
        while others:
            whole[:, 1] += others.pop()[:, 1]
        self._every = [whole]
        return whole

    def _make_pairs(self) -> Array:
        pairs = np.zeros((len(self._w), 2))
        pairs[:, :1] = self._w
        return pairs


class _KernelSums:
    """The sums of a kernel machine: it has decision values f(x) in place of <w, x>, and no v."""

    def __init__(self, machine: KernelState) -> None:
        self._machine = KernelMachine(machine.vectors, machine.beta)
        self._squared_norm = squared_norm(machine.vectors, machine.beta)

    def add(self, _coefficients: Array, rows: Segment, _lock: Lock) -> Array:
        """Return the decision values f(x_i) of the rows, (n, 1)."""
        return self._machine.decision_values(rows)[:, np.newaxis]

    def squared_norms(self) -> Array:
        """Return |f|^2, and nan in place of |v|^2 and |w - v|^2, (3, 1)."""
        return np.array([[self._squared_norm], [np.nan], [np.nan]])


class TrainingScores:
    """Accuracy of each model of a run, or r2 in regression; `add` all rows. A row counts as much as its weight.

    A model of more than two classes has a task for each; if a run has only some of them, it has no score.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._width, self._models = tasks.width, tasks.models
        self._weight, self._right = 0.0, np.zeros(len(self._models))
        self._errors = [NumberErrors() for _ in self._models] if tasks.is_regression else []

    def add(self, rows: Segment, decision_values: Array) -> None:
        """Add rows and their decision values (n, width), which columns that only fill the axis have, too."""
        weight = rows.weight if len(rows.weight) else np.ones(len(rows))
        self._weight += float(weight.sum())
        for errors, (column,) in zip(self._errors, self._models, strict=False):
            errors.add(rows.target.astype(float), decision_values[:, column], weight)
        for place, columns in enumerate(self._models if not self._errors else ()):
            values = decision_values[:, columns if len(columns) > 1 else columns[0]]
            self._right[place] += weight[predicted_classes(values) == rows.class_code].sum()

    @property
    def scores(self) -> Array:
        """The score of the model that each task belongs to, (width,); nan: the task makes no model here."""
        scores = np.full(self._width, np.nan)
        for place, columns in enumerate(self._models if self._weight else ()):
            r2 = self._errors[place].figures()["r2"] if self._errors else None
            scores[columns] = (np.nan if r2 is None else r2) if self._errors else self._right[place] / self._weight
        return scores
