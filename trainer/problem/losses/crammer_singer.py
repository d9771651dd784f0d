"""The loss of Crammer and Singer: all classes in one problem. Its step is in trainer.kernels.crammer_singer.

Primal  P(w)     = 1/2 sum_m |w_m|^2 + sum_i C_i loss_i,   loss_i = max_m (e_im + z_im) - z_i,own,  z_im = <w_m, x_i>
Dual    D(alpha) = sum_i alpha_i,own - 1/2 sum_m |w_m|^2,  w_m = sum_i alpha_im x_i,
        over alpha_im <= C_im,  sum_m alpha_im = 0

e_im is 0 and C_im is C_i for a row's own class; for others e_im is 1 and C_im is 0. G_im = z_im + e_im is the gradient
of -D, and r_im = C_im - alpha_im >= 0 the room of a class. For the w of alpha

        P(w) - D(alpha) = sum_i sum_m r_im (max G_i - G_im),   where no term is below 0.

LIBLINEAR's -s 4 solves this problem (Keerthi et al., KDD 2008).

In all functions `own` (n,) are the codes of the rows' classes, C (n,) is C_i, 0 for a row that is left out, z and alpha
are (n, n_classes).
"""

import numpy as np

from streamsvm.storage.rows.csr import Array

_ROUNDING = 1e-12  # times C_i: an alpha_i that is so near its bounds counts as inside


def projected(own: Array, C: Array, alpha: Array) -> Array:
    """Return alpha moved inside its bounds, each row of sum 0. A row that only rounding has moved out stays as it is.

    Negative rooms r_im are set to 0, and a row's rooms are scaled to the sum C_i. So a class at its bound stays there;
    in the nearest alpha, all classes would leave their bounds after rounding alone.
    """
    nearest = scaled_into_bounds(own, C, alpha)
    is_inside = np.abs(nearest - alpha).max(axis=1, initial=0.0) <= _ROUNDING * C
    return np.where(is_inside[:, np.newaxis], alpha, nearest)


def scaled_into_bounds(own: Array, C: Array, alpha: Array) -> Array:
    """Return alpha moved inside its bounds, see `projected`, also in rows that only rounding has moved out."""
    bounds = _bounds(own, C, alpha.shape[1])
    room = np.maximum(bounds - alpha, 0.0)
    total, wanted = room.sum(axis=1), bounds.sum(axis=1)
    # An alpha that sums to 0 has room C_i at least. Without any room, alpha is 0.
    has_room = total > 0.0
    room *= (wanted / np.where(has_room, total, 1.0))[:, None]
    return np.where(has_room[:, None], bounds - room, 0.0)


def losses(own: Array, C: Array, z: Array) -> float:
    """Return the sum of C_i loss_i over the rows."""
    return float(np.dot(C, _gradients(own, z).max(axis=1) - _own_column(own, z)))


def dual(own: Array, alpha: Array) -> float:
    """Return the sum of alpha_i,own over the rows."""
    return float(_own_column(own, alpha).sum())


def violations(own: Array, C: Array, z: Array, alpha: Array) -> Array:
    """Return each row's violation (n,): max_m G_im - min over {m: r_im > 0} of G_im; 0 for a row that is left out."""
    G, has_room = _gradients(own, z), alpha < _bounds(own, C, alpha.shape[1])
    largest = G.max(axis=1)
    return largest - np.where(has_room.any(axis=1), np.where(has_room, G, np.inf).min(axis=1), largest)


def _bounds(own: Array, C: Array, n_classes: int) -> Array:
    """Return the bounds C_im, (n, n_classes)."""
    bounds = np.zeros((len(own), n_classes))
    np.put_along_axis(bounds, _places(own), C[:, None], axis=1)
    return bounds


def _gradients(own: Array, z: Array) -> Array:
    """Return the gradients G_im, (n, n_classes)."""
    G = z + 1.0
    np.put_along_axis(G, _places(own), np.take_along_axis(z, _places(own), axis=1), axis=1)
    return G


def _own_column(own: Array, values: Array) -> Array:
    return np.take_along_axis(values, _places(own), axis=1)[:, 0]


def _places(own: Array) -> Array:
    """Return the columns of the rows' own classes as (n, 1), the shape that numpy's take_along_axis takes."""
    return np.asarray(own).astype(np.intp)[:, None]
