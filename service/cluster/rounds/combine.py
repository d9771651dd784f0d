"""How far to go along what all machines have changed. Pure functions; figures are (lanes,), of the whole problem.

D(alpha + k change) is a parabola in k, as the losses' parts of D are (hinge and squared hinge). Both ends of the
line are feasible, and the box is convex: the best k in [0, 1] is known exactly from two dot products with w (Lee, Roth,
"Distributed box-constrained quadratic optimization for dual linear SVM", ICML 2015).
"""

import numpy as np

from streamsvm.storage.rows.csr import Array


def along_axis(figures: Array, w: Array) -> Array:
    """Figures (lanes,) of the lanes there are, and 0 for what fills the axis of w."""
    every = np.zeros(w.shape[1])
    every[: len(figures)] = figures
    return every


def dots(a: Array, b: Array) -> Array:
    """<a, b> of each lane, (lanes,)."""
    return np.asarray(np.einsum("fl,fl->l", a, b))


def best_step(w: Array, change: Array, linear: Array, square: Array) -> Array:
    """k (lanes,) in [0, 1] where D(alpha + k change) is largest.

    change  of w, as long as w;  linear - <w, change>: slope of D at 0;  square + |change|^2: minus its curvature
    """
    slope, curvature = linear - dots(w, change), square + dots(change, change)
    return np.clip(np.divide(slope, curvature, out=np.ones_like(slope), where=curvature > 0.0), 0.0, 1.0)
