"""Shows training: `cv_results_` as scikit-learn has it, the curve of M+ - M-, a progress bar, and callbacks.

scikit-learn's callbacks, which `set_callbacks` takes in version 1.9 and newer, are called for each pass of training.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import sklearn

from streamsvm.errors import told_plainly
from streamsvm.reader.errors import InputError
from streamsvm.service.jobs.fields.scoring import FIGURE_OF, sign_of
from streamsvm.service.jobs.progress.plots import draw_curves, lane_curves, lane_figure
from streamsvm.service.remote.frames import is_column, is_frame
from streamsvm.service.terminal.display import display, progress_line
from streamsvm.sources import is_files
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
    scores = results["mean_test_score"]
    results["rank_test_score"] = np.array([1 + int((scores > score).sum()) for score in scores], np.int32)
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
    draw_curves(ax, history, names)
    wanted, label = (tolerance, "tolerance") if name == "gap" else (relative_gap, "relative gap wanted")
    if wanted is not None:
        ax.axhline(wanted, linestyle="--", color="grey", label=label)
    ax.set(xlabel="seconds", ylabel=FIGURES[name].label)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


class _Bar:
    """A bar that fills as M+ - M- and the relative gap fall to their targets, in logarithms; lanes fill equal parts."""

    def __init__(self, tolerance: float | None, relative_gap: float | None) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - an extra

        self._targets = {"gap": tolerance, "relative_gap_bound": relative_gap}
        self._first: dict[str, float] = {}
        self._bar = tqdm(total=1.0, bar_format="{percentage:3.0f}%|{bar}| {elapsed} {desc}", leave=True)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Show the progress of a job; `history` has an entry for each finished pass."""
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


def progress_bar(
    verbose: bool, tolerance: float | None, relative_gap: float | None
) -> AbstractContextManager[Callable[..., None]]:
    """Return a context whose function shows training by a bar, or by lines without tqdm; nothing unless `verbose`."""
    if not verbose:
        return nullcontext(lambda *_: None)
    try:
        return closing(_Bar(tolerance, relative_gap))
    except ModuleNotFoundError:
        return nullcontext(display(False, tolerance, relative_gap))


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ModuleNotFoundError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Refuses callbacks, for versions of scikit-learn that have none."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Raise InvalidInput not_installed."""
            with told_plainly():
                message = f"callbacks need scikit-learn 1.9 or newer, this is {sklearn.__version__}"
                raise InputError("not_installed", message, hint="Install it, or watch training with verbose=True.")

    with_callbacks = None


_Method = TypeVar("_Method", bound=Callable[..., Any])


class Callbacks(CallbackSupportMixin):
    """The part of an estimator that runs callbacks."""

    _callback_fault: Exception | None = None
    _told_passes = 0

    def _watch(self, show: Callable[..., None]) -> Callable[..., bool]:
        """Return the function that training calls with progress and history: it shows these, and calls callbacks."""

        def watch(progress: dict[str, Any], history: list[dict[str, Any]]) -> bool:
            show(progress, history)
            try:
                return self._tell_passes(history)
            except Exception as error:  # would look like an error of training; `_tell_passes` raises it after training
                self._callback_fault = error
                return True

        return watch

    def _tell_passes(self, history: Sequence[dict[str, Any]]) -> bool:
        """Call callbacks for those passes of `history` that are new; return whether a callback asks to end training.

        Each pass is a task `pass` below the task `fit`; its `metadata` is the pass's entry of `history_`.
        """
        if self._callback_fault is not None:
            raise self._callback_fault
        fit = getattr(self, "_callback_fit_ctx", None)
        if fit is None:
            return False
        is_ending = False
        for record in history[self._told_passes :]:
            self._told_passes += 1
            one = fit.subcontext(task_name="pass")
            one.call_on_fit_task_begin(estimator=self, metadata=record)
            is_ending |= one.call_on_fit_task_end(estimator=self, metadata=record)
        return is_ending


def telling_callbacks(method: _Method) -> _Method:
    """Make the method `fit` or `partial_fit` of an estimator a task, at whose begin and end callbacks are called.

    They get X and y if these are arrays or frames that can be read again, and at the end the fitted estimator.
    """
    if with_callbacks is None:
        return method

    @with_callbacks
    @wraps(method)
    def telling(self: Any, X: Any, y: Any = None, *args: Any, **named: Any) -> Any:
        is_given = not (y is None or is_column(y) or is_files(X) or isinstance(X, Iterator))
        given = {"X": X, "y": y} if is_given and (hasattr(X, "shape") or not is_frame(X)) else {}
        task = self._init_callback_context(task_name=method.__name__, max_subtasks=None)
        try:
            task.call_on_fit_task_begin(estimator=self, **given)
            fitted = method(self, X, y, *args, **named)
            task.call_on_fit_task_end(estimator=self, **given, reconstruction_attributes=dict)
        finally:
            for name in vars(self).keys() & {"_told_passes", "_callback_fault"}:
                delattr(self, name)
        return fitted

    return cast(_Method, telling)
