"""The numbers that a task keeps for each row during Newton steps, and the answers that it computes from them."""

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.requests import Figures, Look, Looked, LookKind, Slope
from streamsvm.trainer.newton.rows import RowLabels, chunks
from streamsvm.trainer.problem.losses import Loss
from streamsvm.trainer.problem.tasks import RowTerms


class TaskRows:
    """m and centre of each row in a task. `proximal` computes alpha and h from them when they are needed.

    alpha   (n,) in its box: the first centre, changed in place
    change  (n,) filled by a scan: the products of the rows, times the row's sign in classification; or m itself
    """

    def __init__(self, loss: Loss, labels: RowLabels, C: Array, alpha: Array) -> None:
        self._loss = loss
        self._chunks = [(chunk, labels.terms(C, chunk)) for chunk in chunks(len(alpha))]
        self._centre = alpha
        self._m, self.change = np.zeros((2, len(alpha)))
        self.largest_C = float(C.max(initial=0.0))

    def proximal(self, terms: RowTerms, rows: Array | slice, sigma: float) -> tuple[Array, Array]:
        """alpha and h (k,) of these rows at m; `terms` are the terms of the rows."""
        return self._loss.proximal(terms, self._centre[rows], sigma, self._m[rows])

    def stand_at_alpha(self, sigma: float) -> None:
        """Make alpha the centre."""
        for chunk, terms in self._chunks:
            self._centre[chunk], _ = self.proximal(terms, chunk, sigma)

    def answer(self, look: Look) -> Looked:
        """Answer a question, see `LookKind`."""
        if look.kind is LookKind.SLOPE:
            return self._slope(look)
        if look.kind is LookKind.CHECK:
            self.change += self._m  # m at v: no third array is needed
            return self._evaluate(look, self.change, alpha_of=self._m), self._evaluate(look, self._m)
        if look.kind is LookKind.MOVE:
            for chunk, _ in self._chunks:
                self._m[chunk] += look.t * self.change[chunk]
        else:
            self._m[:] = self.change
        before = (self._evaluate(look, self._m, at_centre=True),) if look.kind is LookKind.BEGIN else ()
        return *before, self._evaluate(look, self._m)

    def _slope(self, look: Look) -> Slope:
        first = second = size = 0.0
        for chunk, terms in self._chunks:
            change = self.change[chunk]
            m = self._m[chunk] + look.t * change
            alpha, h = self._loss.proximal(terms, self._centre[chunk], look.sigma, m)
            first += float(alpha @ change)
            second += float(h @ (change * change))
            size += float((np.abs(alpha) + h * np.abs(m)) @ np.abs(change))
        return Slope(first, second, size)

    def _evaluate(self, look: Look, every_m: Array, alpha_of: Array | None = None, at_centre: bool = False) -> Figures:
        """Sums at m (n,) and at an alpha: that of m, that of another m (`alpha_of`), or the centre (`at_centre`)."""
        losses = dual = total = moved = 0.0
        free, M_plus, M_minus = 0, -np.inf, np.inf
        for chunk, terms in self._chunks:
            m, centre = every_m[chunk], self._centre[chunk]
            at = m if alpha_of is None else alpha_of[chunk]
            alpha, h = self._loss.proximal(terms, centre, look.sigma, at)
            alpha = centre if at_centre else alpha
            PG = self._loss.projected_gradient(terms, m, alpha)
            losses, dual = losses + self._loss.losses(terms, m), dual + self._loss.dual(terms, alpha)
            total += float(alpha.sum())
            moved += float(np.sum((alpha - centre) ** 2))
            free += int(np.count_nonzero(h))
            M_plus, M_minus = max(M_plus, PG.max(initial=-np.inf)), min(M_minus, PG.min(initial=np.inf))
        return Figures(losses, dual, total, moved, free, float(M_plus), float(M_minus))
