"""Cutting planes of the losses, and the reduced problem they make.

The losses R(w) = sum_i C_i max(0, 1 - y_i <w, x_i>) lie above every cut b_j - <A_j, w>, so

    F_t(w) = 1/2 |w|^2 + max_j (b_j - <A_j, w>)        (cut 0: A = 0, b = 0)

lies below the objective, and its minimum is a lower bound. It is found in its dual (Franc, Sonnenburg, ICML 2008),

    min over u >= 0, sum u = 1 of  1/2 u'Hu - b'u,  H = A'A;    w_t = sum_j u_j A_j,
"""

from collections.abc import Mapping

import numpy as np

from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.trainer.kernels.cutting_planes import minimise_on_simplex

IDLE_ROUNDS = 50  # a cut is dropped after so many rounds with weight 0
_MOST_STEPS = 100_000
_FEWEST_CUTS = 3


class Cuts:
    """At most `most` cuts of length `width`. When there are so many, a new cut replaces the one whose weight has been 0
    for longest; if all weights are above 0, the two cuts with the least are merged. The lower bound never falls.

    kept  arrays of `resumable`, to go on from there; empty: begin without cuts
    """

    def __init__(self, width: int, most: int, kept: Mapping[str, Array] = EMPTY) -> None:
        if most < _FEWEST_CUTS:
            raise ValueError(f"at least {_FEWEST_CUTS} cuts are needed, not {most}")
        self._most = most
        self._b = kept.get("cut_b", np.zeros(1))
        self._A = [np.zeros(width), *(kept[f"cut_{j}"] for j in range(1, len(self._b)))]
        self._H = kept.get("cut_H", np.zeros((1, 1)))
        self._u = kept.get("cut_u", np.ones(1))
        self._idle = kept.get("cut_idle", np.zeros(1, np.int64))
        self.lower_bound = float(kept.get("lower_bound", np.zeros(1))[0])

    def __len__(self) -> int:
        return len(self._A) - 1

    def add(self, A: Array, b: float) -> None:
        """Add the cut b - <A, w>; `A` (width,) is kept, not copied."""
        self._make_room()
        row = np.array([A @ other for other in self._A])
        self._A.append(A)
        self._b = np.append(self._b, b)
        self._H = np.block([[self._H, row[:, None]], [row[None, :], np.full((1, 1), A @ A)]])
        self._u = np.append(self._u, 0.0)
        self._idle = np.append(self._idle, 0)

    def solve(self, tolerance: float, w: Array) -> None:
        """Solve the reduced problem to `tolerance` from the last solution on; `w` (width,) becomes w_t."""
        minimise_on_simplex(self._H, self._b, tolerance, _MOST_STEPS, self._u, np.empty(len(self._u)))
        self._u /= self._u.sum()
        self.minimum(w)
        self.lower_bound = max(self.lower_bound, float(self._b @ self._u - w @ w / 2))
        self._idle = np.where(self._u > 0.0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)

    def minimum(self, w: Array) -> None:
        """`w` (width,) becomes w_t, of the last solution."""
        w[:] = 0.0
        for j in np.flatnonzero(self._u):
            w += self._u[j] * self._A[j]

    def resumable(self) -> dict[str, Array]:
        """The arrays from which new Cuts go on, as their `kept`."""
        cuts = {f"cut_{j}": A for j, A in enumerate(self._A) if j}
        sums = {"cut_b": self._b, "cut_H": self._H, "cut_u": self._u, "cut_idle": self._idle}
        return {**cuts, **sums, "lower_bound": np.array([self.lower_bound])}

    def _make_room(self) -> None:
        if len(self) < self._most:
            return
        idle = self._idle.copy()
        idle[0] = 0
        longest = int(idle.argmax())
        if idle[longest]:
            self._keep(np.arange(len(idle)) != longest)
        else:
            self._merge(*(1 + np.argsort(self._u[1:], kind="stable")[:2]).tolist())

    def _merge(self, i: int, j: int) -> None:
        """Replace two cuts by their mean, weighted by u: w_t and the lower bound do not change."""
        share = self._u[i] / (self._u[i] + self._u[j])
        self._A[i] = share * self._A[i] + (1.0 - share) * self._A[j]
        mean = np.eye(len(self._u))
        mean[i, i], mean[i, j] = share, 1.0 - share
        self._b = mean @ self._b
        self._H = mean @ self._H @ mean.T
        self._u[i] += self._u[j]
        self._keep(np.arange(len(self._u)) != j)

    def _keep(self, kept: Array) -> None:
        """Drop the cuts that are not `kept` (m,) bool; cut 0 stays."""
        kept[0] = True
        self._A = [A for A, stays in zip(self._A, kept.tolist(), strict=True) if stays]
        self._b, self._u, self._idle = self._b[kept], self._u[kept], self._idle[kept]
        self._H = np.ascontiguousarray(self._H[np.ix_(kept, kept)])
