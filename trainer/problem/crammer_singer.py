"""The objective of Crammer and Singer's machine of several classes, at fixed decision values, summed over rows.

Primal  P(w)     = 1/2 sum_m |w_m|^2 + sum_i C_i loss_i,   loss_i = max_m (e_im + z_im) - z_i,own,  z_im = <w_m, x_i>
Dual    D(alpha) = sum_i alpha_i,own - 1/2 sum_m |w_m|^2,  w_m = sum_i alpha_im x_i,
        over alpha_im <= C_im,  sum_m alpha_im = 0

e_im is 0 and C_im is C_i for a row's own class; for others e_im is 1 and C_im is 0. G_im = z_im + e_im is the gradient
of -D, and r_im = C_im - alpha_im >= 0 the room of a class. For the w of alpha

        P(w) - D(alpha) = sum_i sum_m r_im (max G_i - G_im),   where no term is below 0.

As LIBLINEAR's -s 4 has it (Keerthi et al., KDD 2008).
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.rows.csr import Array


@dataclass(frozen=True)
class CrammerSinger:
    """C (n_classes,) is a row's C by its class; C_i is that times the row's weight, 0 for a row that is left out.

    y       (n,) places of the rows' own classes, 0 .. n_classes - 1, of any type
    weight  (n,) of the rows; None: all 1
    z       (n, n_classes) decision values
    alpha   (n, n_classes) dual variables: w_m is the sum of alpha[:, m] x_i
    """

    C: Array

    def projected(self, y: Array, alpha: Array, weight: Array | None = None) -> Array:
        """Some alpha (n, n_classes) inside the bounds, each of sum 0: one that is already stays as it is.

        Room beyond a bound is given up, and what is left is scaled to the sum C_i. A class at its bound stays there,
        which the nearest alpha would not see to: after rounding alone it would have all classes leave their bounds.
        """
        bounds = self._bounds(y, weight)
        room = np.maximum(bounds - alpha, 0.0)
        total, C = room.sum(axis=1), bounds.sum(axis=1)
        # Of alpha that sums to 0 there is at least C_i; without any room, alpha is 0.
        has_room = total > 0.0
        room *= (C / np.where(has_room, total, 1.0))[:, None]
        return np.where(has_room[:, None], bounds - room, 0.0)

    def losses(self, y: Array, z: Array, weight: Array | None = None) -> float:
        """Sum of C_i loss_i."""
        own = np.take_along_axis(z, _places(y), axis=1)[:, 0]
        return float(np.dot(self._C(y, weight), self._gradients(y, z).max(axis=1) - own))

    def dual(self, y: Array, alpha: Array) -> float:
        """Sum of alpha_i,own."""
        return float(np.take_along_axis(alpha, _places(y), axis=1).sum())

    def violations(self, y: Array, z: Array, alpha: Array, weight: Array | None = None) -> Array:
        """max_m G_im - min over {m: r_im > 0} of G_im, (n,); 0 of a row that is left out."""
        G, has_room = self._gradients(y, z), alpha < self._bounds(y, weight)
        largest = G.max(axis=1)
        return largest - np.where(has_room.any(axis=1), np.where(has_room, G, np.inf).min(axis=1), largest)

    def gap_terms(self, y: Array, z: Array, alpha: Array, weight: Array | None = None) -> Array:
        """What each row adds to P - D, (n,), if z are the decision values of the w of alpha."""
        G = self._gradients(y, z)
        return np.sum((self._bounds(y, weight) - alpha) * (G.max(axis=1, keepdims=True) - G), axis=1)

    def n_free(self, y: Array, alpha: Array, weight: Array | None = None) -> int:
        """How many rows have more than one class with room."""
        return int(np.count_nonzero((alpha < self._bounds(y, weight)).sum(axis=1) > 1))

    def _C(self, y: Array, weight: Array | None) -> Array:
        C = np.asarray(self.C, float)[_places(y)[:, 0]]
        return C if weight is None else C * weight

    def _bounds(self, y: Array, weight: Array | None) -> Array:
        """C_im, (n, n_classes)."""
        bounds = np.zeros((len(y), len(self.C)))
        np.put_along_axis(bounds, _places(y), self._C(y, weight)[:, None], axis=1)
        return bounds

    def _gradients(self, y: Array, z: Array) -> Array:
        """G_im, (n, n_classes)."""
        G = z + 1.0
        np.put_along_axis(G, _places(y), np.take_along_axis(z, _places(y), axis=1), axis=1)
        return G


def _places(y: Array) -> Array:
    """(n, 1), for numpy's take_along_axis."""
    return np.asarray(y).astype(np.intp)[:, None]
