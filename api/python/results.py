"""Shows training: `cv_results_` as scikit-learn has it, the curve of M+ - M-, and a progress bar."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.service.jobs.fields.scoring import FIGURE_OF, sign_of
from streamsvm.service.jobs.progress.plots import draw_curves, lane_curves, lane_figure
from streamsvm.service.terminal.display import display, progress_line
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.figures import FIGURES


def cv_results(cv: Sequence[Mapping[str, Any]], scoring: str) -> dict[str, Any]:
    """Return arrays (n_C,): `params`, `param_C`, the score of each fold, and mean, std and rank of the scores.

    The score is `scoring`: `neg_` stands for a metric negated. Every metric has its own `mean_test_NAME`,
    `std_test_NAME` and `splitK_test_NAME`, not negated.
    """
    values = [each["C"] for each in cv]
    results: dict[str, Any] = {
        "param_C": np.ma.masked_array(values, mask=False),
        "params": [{"C": C} for C in values],
        **_scores(cv, FIGURE_OF[scoring], "score", sign_of(scoring)),
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
    names = several if len(curves) > 1 else dict.fromkeys(curves, FIGURES[name].label)
    draw_curves(ax, history, set(), names)
    wanted, label = (tolerance, "tolerance") if name == "gap" else (relative_gap, "relative gap wanted")
    if wanted is not None:
        ax.axhline(wanted, linestyle="--", color="grey", label=label)
    ax.set(xlabel="seconds", ylabel=FIGURES[name].label)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


class _Silent:
    """A display that shows nothing."""

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Show the progress of a job; `history` has an entry for each finished pass."""

    def close(self) -> None:
        """Show that training has ended."""


class _Bar(_Silent):
    """A bar that fills as M+ - M- and the relative gap fall to their targets, in logarithms; lanes fill equal parts."""

    def __init__(self, tolerance: float | None, relative_gap: float | None) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - an extra

        self._targets = {"gap": tolerance, "relative_gap_bound": relative_gap}
        self._first: dict[str, float] = {}
        self._bar = tqdm(total=1.0, bar_format="{percentage:3.0f}%|{bar}| {elapsed} {desc}", leave=True)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        lane = progress["lane"]
        done = (lane["number"] + lane["count"] * self._share(progress)) / lane["of"]
        self._bar.update(max(0.0, done - self._bar.n))
        self._bar.set_description_str(progress_line(progress, *self._targets.values()))

    def close(self) -> None:
        """Show that training has ended."""
        self._bar.update(1.0 - self._bar.n)
        self._bar.close()

    def _share(self, progress: dict[str, Any]) -> float:
        """Return the share of training that is done, 0 to 1, by whichever of M+ - M- and relative gap is less far."""
        shares = [
            self._share_of(name, progress[name], target) for name, target in self._targets.items() if target is not None
        ]
        return min(shares, default=0.0)

    def _share_of(self, name: str, now: float | None, target: float) -> float:
        if not now or now <= 0:
            return 0.0
        first = self._first[name] = max(now, self._first.get(name, now))
        way = math.log(first / target)
        return min(1.0, max(0.0, math.log(first / now) / way)) if way > 0 else 1.0


class _ProgressLines(_Silent):
    """Prints progress as the command line does, for installations without tqdm."""

    def __init__(self, tolerance: float | None, relative_gap: float | None) -> None:
        self._display = display(False, tolerance, relative_gap)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self._display(progress, history)


def progress_bar(verbose: bool, tolerance: float | None, relative_gap: float | None) -> _Silent:
    """Make the display: one that shows nothing unless `verbose`, else a bar, or lines without tqdm."""
    if not verbose:
        return _Silent()
    try:
        return _Bar(tolerance, relative_gap)
    except ModuleNotFoundError:
        return _ProgressLines(tolerance, relative_gap)
