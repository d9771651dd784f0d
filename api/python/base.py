"""The base of both estimators: makes a fitted model of X and y of any kind."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from streamsvm.errors import as_arguments, tell_slower, told_plainly, warn
from streamsvm.labels import Labels, is_time, stored
from streamsvm.prediction import Certificate, Predictions
from streamsvm.raw import evaluated
from streamsvm.results import Callbacks, cv_results, plot_history, progress_bar
from streamsvm.rows import TrainingRows
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.from_text import SEARCHES
from streamsvm.service.jobs.fields.spec import end_of
from streamsvm.service.jobs.fields.texts import COUNTERPARTS, parameter
from streamsvm.service.jobs.progress.states import END_HINTS, limits_met
from streamsvm.service.processes.kernels import compile_first
from streamsvm.sources import Source, without_beside
from streamsvm.storage.models.model_file import NUMBERED, Label, Model
from streamsvm.workspace import TrainingOutcome, Workspace

AUTO = "auto"  # relative_gap follows from the tolerance and the kernel
_WIDTH = 112
_Kind = TypeVar("_Kind", bound=type)


def described(kind: _Kind) -> _Kind:
    """Replace each line `field NAME` in a class's docstring by that job field's description and the class's default."""
    _show_known(kind)
    defaults = {name: known.default for name, known in inspect.signature(kind).parameters.items()}

    def paragraph(place: re.Match[str]) -> str:
        head, text = parameter(FIELDS[place[1]], defaults[place[1]])
        return f"{head}\n{textwrap.indent(textwrap.fill(text, _WIDTH), ' ' * 4)}"

    if kind.__doc__:  # none with python -OO
        kind.__doc__ = re.sub(r"^field (\w+)$", paragraph, inspect.cleandoc(kind.__doc__), flags=re.MULTILINE)
    return kind


def _show_known(kind: type) -> None:
    """Remove `**unknown` from the signature of `__init__`, which takes unknown parameters only to refuse them."""
    init: Any = kind.__init__  # type: ignore[misc]
    signature = inspect.signature(init)
    known = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    init.__signature__ = signature.replace(parameters=known)


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Set each parameter that `__init__` was given as an attribute of the same name, as scikit-learn demands.

    Raises TypeError for a parameter that the estimator does not have, with the name of the parameter to use instead.
    """
    for name in given["unknown"]:
        raise TypeError(f"{type(estimator).__name__} has no parameter {name!r}{_instead(name, given)}")
    vars(estimator).update({name: value for name, value in given.items() if name not in ("self", "unknown")})


def _instead(name: str, known: Iterable[str]) -> str:
    """Write, for a message, what to use instead of a scikit-learn parameter, or of a mistyped name; "" if unknown."""
    if name in COUNTERPARTS:
        return f": {as_arguments(COUNTERPARTS[name])}"
    if name == "warm_start":
        return ": partial_fit goes on from the rows before"
    near = get_close_matches(name, {*known} - {"self", "unknown"}, 1)
    return f": did you mean {near[0]!r}?" if near else ""


def given_ends(tolerance: float | None, relative_gap: float | str | None) -> dict[str, Any]:
    """Return the fields that these parameters set in a job; the job fills in defaults for all others."""
    if relative_gap != AUTO:
        return {"tolerance": tolerance, "relative_gap": relative_gap}
    return {} if tolerance is None else {"tolerance": tolerance}


def ends(tolerance: float | None, relative_gap: float | str | None, kernel: str) -> tuple[float | None, float | None]:
    """Return the tolerance and the relative gap at which a job with these parameters ends; None: it ends at none."""
    given = given_ends(tolerance, relative_gap)
    known = {name: FIELDS[name].default for name in ("tolerance", "relative_gap")}
    found = {**known, **end_of({"kernel": kernel, **given}), **given}
    return found["tolerance"], found["relative_gap"]


def as_python(value: Any) -> Any:
    """Convert numbers and vectors of numpy to Python's own, since a job is JSON."""
    if isinstance(value, np.ndarray | tuple):
        value = list(value)
    if isinstance(value, list):
        return [as_python(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


# Parameters whose names are fields of a job, but which `_job` translates or leaves out; it passes all others unchanged.
_TRANSLATED = {
    "solver", "features", "scoring", "cache_bytes", "memory_bytes", "class_weight", "gamma", "budget", "tolerance",
    "relative_gap", "solver_options",
}  # fmt: skip


class StreamEstimator(Callbacks, Predictions, TrainingRows):
    """An estimator that trains with the service's code; StreamSVC and StreamSVR have the parameters."""

    loss: str
    bias: float | None
    cv: int | None
    validation: float | None
    scoring: str
    tolerance: float | None
    relative_gap: float | str | None
    cache_bytes: int | None
    memory_bytes: int | None
    solver_options: Mapping[str, Any] | None
    verbose: bool

    _workspace: Workspace | None

    def plot_convergence(self, ax: Any = None) -> Any:
        """Draw M+ - M- over the seconds of training; return the axes. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None: new axes in a new figure.
        """
        check_is_fitted(self, "history_")
        return plot_history(self.history_, *self._ends, ax)

    def evaluate(
        self, X: Any, y: Any = None, sample_weight: Any = None, curves: bool = False, threshold: str = ""
    ) -> dict[str, Any]:
        """Return the figures of a service's evaluation: accuracy, AUC, errors of each class, or squared errors.

        Parameters
        ----------
        X : path or data frame
            Rows, read as the rows of training were; `input_options` hold for options that training left open.
        y, sample_weight : array of shape (n_rows,), or the name or number of a column, default=None
            Labels and weights; y None: the column with the labels in training, or with a usual name.
        curves : bool, default=False
            Whether, with two classes, `curves` has points of the ROC curve and the precision-recall curve: lists
            `threshold`, `true_positive_rate`, `false_positive_rate` and `precision`, at most 1,000 points.
        threshold : str, default=""
            With two classes, a rule that chooses `threshold` on these rows: "f1", "precision>=0.9" or "costs=5:1".
        """
        check_is_fitted(self, "model_")
        with told_plainly():
            return evaluated(self._to_judge(), X, y, sample_weight, self.input_options, curves, threshold)

    def _begin_anew(self) -> None:
        """Drop the rows of earlier calls, and the workspace that holds them."""
        self._lost_rows = False
        if (space := getattr(self, "_workspace", None)) is not None:
            space.close()
            self._workspace = None

    def _fit_source(self, source: Source, labels: Labels) -> None:
        """Train on the rows of a source, and on no other rows."""
        with told_plainly(), closing(Workspace(source.size)) as space:
            compile_first("several" if len(labels.known) > 2 else "one")
            space.add(source)
            self._learn(space, labels)

    def _add_source(self, source: Source, labels: Labels) -> None:
        """Train on the rows of a source, and on all rows that were added before."""
        with told_plainly():
            compile_first("several" if len(labels.known) > 2 else "one")
            space = self._workspace = getattr(self, "_workspace", None) or Workspace(keeps=True)
            space.add(source)
            self._learn(space, labels)

    def _check_rows(self) -> None:
        """Raise ValueError if this estimator is a copy, or was unpickled, and so lacks the rows of earlier calls."""
        if getattr(self, "_lost_rows", False):
            raise ValueError("the rows before stayed where this estimator was copied or pickled: call fit")

    def _learn(self, space: Workspace, labels: Labels) -> None:
        self._check_classes(space.manifest.labels, labels)
        with progress_bar(self.verbose, *self._ends) as show:
            fitted = space.train(self._job(labels, space), self._watch(show))
        self._tell_passes(fitted.history)
        self._take_fitted(fitted, labels)

    def _take_fitted(self, fitted: TrainingOutcome, labels: Labels) -> None:
        if not fitted.trained.models:
            raise KeyboardInterrupt
        ((C, model),) = fitted.trained.models
        model = self._as_given(model, fitted.is_numbered, fitted.beside)
        self._take(self._complete(decoded(model, labels), labels))
        self.C_, self.history_ = C, fitted.history
        self.training_score_ = None if fitted.trained.folds else model.about["score"]
        if fitted.trained.folds:
            self.cv_results_ = cv_results(fitted.trained.folds["cv"], self.scoring)
            self.best_index_ = [each["C"] for each in self.cv_results_["params"]].index(C)
            self.held_out_score_ = model.about["score"]
        self._take_certificate(model.about)
        told = {each["code"]: each for record in fitted.history for each in record.get("slowdowns", ())}
        self._warn(fitted.was_stopped, model.about, "scales_differ" in told)
        tell_slower(each for code, each in told.items() if code not in fitted.forecast)

    def _as_given(self, model: Model, is_numbered: bool, beside: Sequence[str]) -> Model:
        """Return the model with an `about` that describes rows as they were given; see `TrainingOutcome`."""
        about = dict(model.about)
        if not is_numbered:
            about[NUMBERED] = False
        if beside:
            about["input"] = without_beside(about["input"], beside)
        if getattr(self, "_dropped", ()):
            about["input"] = {**about["input"], "dropped": list(self._dropped)}
        is_plain = model.vectors is None and model.maps is None
        mean = getattr(self, "_mean", None) if is_plain else None
        return replace(model, about=about, mean=model.mean if mean is None else mean)

    def _take_certificate(self, about: Mapping[str, Any]) -> None:
        found = about["certificate"] or {}
        known = {name: found.get(name) for name in Certificate._fields}
        self.certificate_ = Certificate(**{name: np.nan if x is None else x for name, x in known.items()})
        self.n_iter_ = int(about["passes"])
        # `converged` was decided before the last pass ended; the certificate is for the weights after that pass.
        found = self.certificate_
        gaps = zip((found.gap, found.relative_duality_gap), self._ends, strict=True)
        are_near = [now <= most for now, most in gaps if most is not None]
        self.converged_ = bool(about["converged"]) or (bool(are_near) and all(are_near))

    def _warn(self, was_stopped: bool, about: Mapping[str, Any], needs_scaling: bool) -> None:
        """Warn if training was interrupted or has not converged, and name parameters that would help.

        about          `about` of the model, which says why training ended
        needs_scaling  whether different scales of features have slowed training
        """
        if was_stopped:
            warn("training was interrupted: the model is that of the last pass", ConvergenceWarning)
        elif not self.converged_:
            gap, relative = self.certificate_.gap, self.certificate_.relative_duality_gap
            reached = "" if np.isnan(gap) else f"M+ - M- is {gap:.3g}; "
            reached += "" if np.isnan(relative) else f"the relative duality gap is {relative:.3g}; "
            is_linear = getattr(self, "kernel", "linear") == "linear"
            advice = [f"raise {name}" for name in limits_met(about)]
            advice += ['set features=["scale"]' if is_linear else "scale X"] * needs_scaling
            if self.pace == "fixed" and is_linear and self.solver in ("auto", "streamsvm"):
                advice.append('leave out pace="fixed", which takes no Newton steps')
            passes = f"{self.n_iter_} pass{'es' * (self.n_iter_ > 1)}"
            hint = END_HINTS.get(about["stop_reason"], "").rstrip(".")
            told = f"{reached}{hint or ' or '.join(advice)}".removesuffix("; ")
            warn(f"not converged after {passes}: {told}", ConvergenceWarning)

    def _job(self, labels: Labels, space: Workspace) -> dict[str, Any]:
        """Return the fields of the job that trains this estimator."""
        passed_on = vars(self).keys() & (FIELDS.keys() - _TRANSLATED)
        fields = {name: as_python(getattr(self, name)) for name in passed_on}
        fields |= given_ends(as_python(self.tolerance), as_python(self.relative_gap))
        fields["features"] = list(self.features or ())
        fields["solver_options"] = dict(self.solver_options or {})
        fields["solver"] = self.solver if self.solver != "auto" else self._solver()
        if self.memory_bytes is not None:
            fields["memory_bytes"] = self.memory_bytes
        elif self.cache_bytes is not None:
            fields["cache_bytes"] = self.cache_bytes
        is_chosen = isinstance(fields["C"], list | str)
        if is_chosen and fields["C"] not in SEARCHES and self.cv is None and self.validation is None:
            raise ValueError(
                "several values of C need cv, in how many folds they are to be compared, or validation, a share of rows"
            )
        if is_chosen or self.validation is not None:
            fields["scoring"] = self.scoring
        if self.validation is None and self.cv is not None and (is_chosen or fields.get("probability")):
            fields |= {"folds": self.cv, "scoring": self.scoring}
        return fields

    @property
    def _ends(self) -> tuple[float | None, float | None]:
        """The tolerance and the relative gap at which training ends, see `ends`."""
        return ends(self.tolerance, self.relative_gap, getattr(self, "kernel", "linear"))

    def _check_classes(self, counts: Mapping[float, int], labels: Labels) -> None:
        """Raise ValueError if all rows have one class; regression checks nothing."""

    def _complete(self, model: Model, labels: Labels) -> Model:
        return model

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        kinds = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
        if self.n_features_in_ == self.model_.n_features:
            return validate_data(self, X, reset=False, **kinds)
        return super()._checked(check_array(X, **kinds))  # X has the features that were made from columns

    def _be(self, model: Model) -> "StreamEstimator":
        """Become the estimator of a model that was trained elsewhere; return self."""
        self._take(model)
        if "certificate" in model.about:
            self._take_certificate(model.about)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the rows of `partial_fit`, which stay on the disk of this machine."""
        state = super().__getstate__()
        return {**state, "_workspace": None, "_lost_rows": True} if state.get("_workspace") is not None else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def decoded(model: Model, labels: Labels) -> Model:
    """Return the model with the labels of y in place of the numbers by which training knew them."""
    about = dict(model.about)
    for part, name in (("lanes", "class"), ("heaviest", "label")):
        if part in about:
            about[part] = [{**each, name: _as_read(labels, each.get(name))} for each in about[part]]
    return replace(model, labels=tuple(_label(labels.decode(label)) for label in model.labels), about=about)


def _as_read(labels: Labels, number: Any) -> Any:
    """Return the label of a class, or None, as a model of a file says it: numbers are floats."""
    label = None if number is None else stored(_label(labels.decode(number)))
    return float(label) if isinstance(label, int) and not isinstance(label, bool) else label


def _label(label: Any) -> Label:
    return label.item() if isinstance(label, np.generic) and not is_time(label) else label
