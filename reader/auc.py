"""The area under the ROC curve, exactly."""

import numpy as np

from storage.csr import Array

_SCORES_AT_ONCE = 1 << 20


def area_under_curve(positive: Array, negative: Array) -> float | None:
    """Share of the pairs (one of each) whose positive has the higher score, ties counted half; None without pairs.

    positive, negative: scores (n,) and (m,), which are sorted in place; they may lie in mapped files.
    (Fawcett 2006, section 7: the Wilcoxon statistic.)
    """
    if not len(positive) or not len(negative):
        return None
    positive.sort()
    negative.sort()
    twice = 0
    for begin in range(0, len(positive), _SCORES_AT_ONCE):
        scores = positive[begin : begin + _SCORES_AT_ONCE]
        for side in ("left", "right"):
            twice += int(np.searchsorted(negative, scores, side).sum())
    return twice / (2 * len(positive) * len(negative))
