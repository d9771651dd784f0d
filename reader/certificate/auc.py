"""The area under the ROC curve, exactly."""

import numpy as np

from streamsvm.storage.rows.csr import Array

_SCORES_AT_ONCE = 1 << 20
WEIGHTED = np.dtype(complex)


def weighted(scores: Array, weight: Array) -> Array:
    """Scores (n,) and weights (n,) as one array of WEIGHTED numbers, so that sorting moves both together."""
    return scores + 1j * weight


def area_under_curve(positive: Array, negative: Array) -> float | None:
    """Share of the pairs (one of each) whose positive has the higher score, ties counted half; None without pairs.

    positive, negative: scores (n,) and (m,), which are changed in place; they may lie in mapped files.
    (Fawcett 2006, section 7: the Wilcoxon statistic.) Of WEIGHTED numbers a pair counts as much as the product
    of its weights.
    """
    if not len(positive) or not len(negative):
        return None
    # Complex numbers are sorted by their real parts, equal ones by their imaginary parts.
    positive.sort()
    negative.sort()
    return _weighted(positive, negative) if positive.dtype == WEIGHTED else _counted(positive, negative)


def _counted(positive: Array, negative: Array) -> float:
    twice = 0
    for begin in range(0, len(positive), _SCORES_AT_ONCE):
        scores = positive[begin : begin + _SCORES_AT_ONCE]
        for side in ("left", "right"):
            twice += int(np.searchsorted(negative, scores, side).sum())
    return twice / (2 * len(positive) * len(negative))


def _weighted(positive: Array, negative: Array) -> float | None:
    # Replace weights by their running sums: these ascend, so that the complex numbers stay sorted.
    np.cumsum(negative.imag, out=negative.imag)
    total, of_negative = float(positive.imag.sum()), float(negative.imag[-1])
    if not total or not of_negative:
        return None
    found = 0.0
    for begin in range(0, len(positive), _SCORES_AT_ONCE):
        scores = positive[begin : begin + _SCORES_AT_ONCE]
        for end in (-np.inf, np.inf):
            bounds = scores.copy()
            bounds.imag = end
            below = np.searchsorted(negative, bounds)
            found += float(scores.imag @ np.where(below > 0, negative.imag[below - 1], 0.0))
    return found / (2.0 * total * of_negative)
