"""Shows how training went: a cross-validation as scikit-learn's `cv_results_`, and the curve of M+ - M-."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.service.jobs.fields.fold_metrics import LESS_IS_BETTER
from streamsvm.service.jobs.progress.plots import FIGURES, draw_curves, lane_curves, lane_figure, newton_curves
from streamsvm.storage.rows.csr import Array


def cv_results(cv: Sequence[Mapping[str, Any]], select_by: str) -> dict[str, Any]:
    """Return arrays (n_C,): `params`, `param_C`, and the score of each split, its mean, std and rank.

    The score is the metric `select_by`, negated if less of it is better. Every metric has its own `mean_test_NAME`,
    `std_test_NAME` and `splitK_test_NAME`, not negated.
    """
    values = [each["C"] for each in cv]
    sign = -1.0 if select_by in LESS_IS_BETTER else 1.0
    results: dict[str, Any] = {
        "param_C": np.ma.masked_array(values, mask=False),
        "params": [{"C": C} for C in values],
        **_scores(cv, select_by, "score", sign),
    }
    results["rank_test_score"] = _ranks(results["mean_test_score"])
    for metric in cv[0]["mean"]:
        results |= _scores(cv, metric, metric, 1.0)
    return results


def _scores(cv: Sequence[Mapping[str, Any]], metric: str, name: str, sign: float) -> dict[str, Array]:
    splits = {
        f"split{k}_test_{name}": _numbers([each["folds"][k][metric] for each in cv]) * sign
        for k in range(len(cv[0]["folds"]))
    }
    mean, std = (_numbers([each[over][metric] for each in cv]) for over in ("mean", "std"))
    return {**splits, f"mean_test_{name}": sign * mean, f"std_test_{name}": std}


def _numbers(values: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values])


def _ranks(scores: Array) -> Array:
    """Return (n,) ranks: 1 for the highest score, and equal ranks for equal scores."""
    return np.array([1 + int((scores > score).sum()) for score in scores], np.int32)


def plot_history(
    history: Sequence[dict[str, Any]], tolerance: float | None, relative_gap: float | None, ax: Any
) -> Any:
    """Draw M+ - M- over seconds, a curve for each lane, into `ax` or new axes; return the axes."""
    if ax is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and slow to import

        ax = plt.subplots(layout="constrained")[1]
    curves, name = lane_curves(history), lane_figure(history)
    several = {lane: f"problem {lane + 1}" for lane in curves}
    names = several if len(curves) > 1 else dict.fromkeys(curves, FIGURES[name])
    draw_curves(ax, curves, set(), names, newton_curves(history))
    wanted, label = (tolerance, "tolerance") if name == "gap" else (relative_gap, "relative gap wanted")
    if wanted is not None:
        ax.axhline(wanted, linestyle="--", color="grey", label=label)
    ax.set(xlabel="seconds", ylabel=FIGURES[name])
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax
