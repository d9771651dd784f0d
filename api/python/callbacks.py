"""Calls scikit-learn's callbacks, which `set_callbacks` takes in version 1.9 and newer, for each pass of training."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import sklearn

from streamsvm.errors import told_plainly
from streamsvm.frames import is_column, is_frame
from streamsvm.reader.errors import InputError
from streamsvm.sources import is_files

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
