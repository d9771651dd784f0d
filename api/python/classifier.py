"""StreamSVC: classification, linear or with a Gaussian kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from streamsvm.base import StreamEstimator, as_python, decoded, described, keep_parameters
from streamsvm.errors import told_plainly
from streamsvm.labels import Labels, OwnLabels, balanced, label_text, with_absent
from streamsvm.prediction import Decisions
from streamsvm.raw import has_labels, judged
from streamsvm.results import telling_callbacks
from streamsvm.service.models.heaviest import input_about
from streamsvm.service.models.threshold import cut_at
from streamsvm.service.remote.frames import is_column
from streamsvm.sources import Source, is_files
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.probability import has_log_odds
from streamsvm.storage.rows.csr import Array
from streamsvm.workspace import Workspace


class _Classification(ClassifierMixin, Decisions, StreamEstimator):
    """A classifier that trains with the service's code; StreamSVC has the parameters."""

    kernel: str
    gamma: float | str
    budget: int
    class_weight: Mapping[Any, float] | str | None
    probability: str | None

    def _labelled(self, X: Any, y: Any, sample_weight: Any, labels: Labels, are_all: bool) -> tuple[Source, Labels]:
        if not self._is_matrix(X, y, sample_weight):
            if not (y is None or is_column(y)):
                check_classification_targets(y)
            if is_files(X) and type(labels) is Labels:
                labels = OwnLabels()
            return self._source(X, y, sample_weight, labels), labels
        X, y, weight = self._in_memory(X, y, sample_weight)
        check_classification_targets(y)
        return self._matrix(X, labels.encode(y), weight, are_all, has_labels=True), labels

    def _job(self, labels: Labels, space: Workspace) -> dict[str, Any]:
        fields = super()._job(labels, space)
        if self.kernel == "rbf":
            # A constant feature changes no distance; gamma and budget are for kernels alone.
            fields |= {"bias": None, "gamma": as_python(self.gamma), "budget": as_python(self.budget)}
        if self.class_weight is None:
            return fields
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise ValueError(f'class_weight is a dict, "balanced" or None, not {self.class_weight!r}')
            names = space.manifest.label_names
            sums = space.label_weights().items()
            weights = balanced({names[int(label)] if names else labels.decode(label): n for label, n in sums})
        else:
            weights = dict(self.class_weight)
        return {**fields, "class_weight": labels.class_weight(weights)}

    def _solver(self) -> str:
        return "bsca" if self.kernel == "rbf" else super()._solver()

    def _check_classes(self, counts: Mapping[float, int], labels: Labels) -> None:
        if len(counts) == 1:
            (number,) = counts
            raise ValueError(f"all rows are of one class, {label_text(labels.decode(number))}: training needs two")

    def _complete(self, model: Model, labels: Labels) -> Model:
        return with_absent(model, [label for label in labels.known if label not in model.labels])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : matrix, data frame or path
            Rows; a frame or a file may also have the labels.
        y : array of shape (n_rows,), or the name or number of a column, default=None
            Labels; None: the column with the labels in training, or with a usual name.
        sample_weight : array of shape (n_rows,), default=None
            Weights of rows.
        """
        check_is_fitted(self, "model_")
        if not has_labels(X, y, self.model_):
            return super().score(X, y, sample_weight)
        found, expected = judged(X, self._to_judge(), y)
        return float(np.average(found == expected, weights=sample_weight))

    def set_threshold(self, threshold: float) -> Self:
        """Cut decision values of two classes at a threshold: from now on they are lower by it; return self.

        Parameters
        ----------
        threshold : float
            Decision value above which classes_[1] is predicted; `evaluate(X, threshold="f1")` chooses one.
        """
        check_is_fitted(self, "model_")
        with told_plainly():
            self.model_ = cut_at(self.model_, threshold)
        self.intercept_ = np.atleast_1d(np.array(self.model_.intercept, np.float64))
        return self

    def _to_judge(self) -> Model:
        """Return the model with its labels True and False as words, as files have them."""
        model = super()._to_judge()
        pairs = zip(self.model_.labels, model.labels, strict=True)
        return replace(model, labels=tuple(str(own) if isinstance(own, bool) else known for own, known in pairs))

    def _learn(self, space: Workspace, labels: Labels) -> None:
        counts = space.manifest.labels
        if type(labels) is Labels and len(counts) == 1 < len(labels.known) and self.kernel == "linear":
            self._take_constant(space, labels)
        else:
            super()._learn(space, labels)

    def _take_constant(self, space: Workspace, labels: Labels) -> None:
        """Become a model that predicts the single class of all rows so far."""
        (number,) = space.manifest.labels
        manifest, n_classes = space.manifest, len(labels.known)
        signs = [1.0 if place == int(number) else -1.0 for place in range(n_classes)]
        several = n_classes > 2
        model = Model(
            np.zeros((n_classes, manifest.n_features) if several else manifest.n_features),
            tuple(map(float, range(n_classes))),
            manifest.index_base,
            bias=1.0,
            w_bias=tuple(signs) if several else signs[0],
            about={**input_about(manifest), "loss": self.loss, "passes": 0, "converged": False, "certificate": {}},
        )
        model = self._as_given(model, space.is_numbered, space.beside)
        self._take(decoded(model, labels))
        self.C_, self.history_ = as_python(self.C), []
        self._take_certificate(model.about)

    def _has_probabilities(self) -> bool:
        if hasattr(self, "model_"):
            return super()._has_probabilities()
        return self.probability is not None or has_log_odds(self.loss)

    def _predict_proba(self, X: Any) -> Array:
        check_is_fitted(self, "model_")
        return super()._predict_proba(X)


@described
class StreamSVC(_Classification):
    """Support vector classification of data that need not fit in memory; linear unless `kernel` says otherwise.

    It minimises 1/2 |w|^2 + C sum_i loss(y_i <w, x_i>) over all rows i; `certificate_` says how near to the optimum it
    came. With `kernel="rbf"`, f(x) = sum_s beta_s exp(-gamma |z_s - x|^2) replaces <w, x>, with at most `budget`
    support vectors z_s for each class against the rest; then the distance to the optimum is not known.

    Reading and training are those of the service, in processes that end with the call; small data are trained on in
    this process. Values are kept as float32; the weights are float64.

    Parameters
    ----------
    C : float, list of float or str, default=1.0
        Weight of the losses. Several values, also "1e-3:10:9", are compared by cross-validation with `cv` folds, or on
        the share `validation` of the rows. "auto" looks for the best C in the same way, by default with 5 folds;
        "auto-1se" takes the smallest C whose score is within one standard error of the best.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        The loss; a model with "logistic" has probabilities.
    field kernel
    field gamma
    field budget
    solver : str, default="auto"
        One of the service's solvers; "auto" is "bsca" with a kernel, else "streamsvm".
    features : list or None, default=None
        Feature maps that rows go through, in order: names, or dictionaries of a name and its options, as
        ["scale", {"pairs": {"squares": True}}]. The model contains them; `coef_` has weights of the features they make.
    field bias
    class_weight : dict, "balanced" or None, default=None
        Label -> factor of C; "balanced": n_rows / (n_classes * rows of the class), where a row of weight k counts as k
        rows.
    field multiclass
    cv : int or None, default=None
        Number of folds in which several values of C are compared; the model is of the C that wins, trained on all
        rows. With one C, number of folds in which rows are held out for `probability`.
    field validation
    scoring : str, default="accuracy"
        The score by which C is selected: the best C has the highest mean of it over the folds. "accuracy",
        "balanced_accuracy", "f1", "f1_macro"; with two classes "roc_auc" or "average_precision"; with probabilities
        "neg_log_loss".
    probability : {"sigmoid"} or None, default=None
        "sigmoid" fits probabilities to decision values by Platt's method, on held-out rows of `cv` folds (None: 5).
    field tolerance
    relative_gap : float, "auto" or None, default="auto"
        Training stops when the relative duality gap (P - D) / P is certified to be at most this; "auto": 0.0001, or
        None if there is a `tolerance` or a kernel; None: never. If both are numbers, training stops when both hold.
    field max_passes
    field max_seconds
    field seed
    field pace
    field threads
    cache_bytes : int, default=268435456
        Most bytes of the rows held in memory.
    memory_bytes : int or None, default=None
        Most bytes of all memory of training, in place of `cache_bytes`; the memory of this interpreter does not count.
    solver_options : dict or None, default=None
        Options of the solver, by the names that they have in a job of the service.
    input_options : dict or None, default=None
        How files are read, by the service's names of options: format, index_base, delimiter, normalize ...
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features; not with kernel "rbf".
    support_vectors_ : csr_matrix of shape (n_support_, n_features)
        With kernel "rbf": the support vectors of all classes.
    dual_coef_ : ndarray of shape (1, n_support_) or (n_classes, n_support_)
        With kernel "rbf": the factors beta_s; with more than two classes, a row for each class against the rest.
    n_support_ : int
        With kernel "rbf": number of support vectors.
    gamma_ : float
        With kernel "rbf": gamma as a number.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Added to each decision value.
    certificate_ : Certificate
        m_plus, m_minus, gap, primal_objective, dual_objective, relative_duality_gap, computed over all rows for the
        final weights. With kernel "rbf" only the primal objective is known, the others are nan.
    history_ : list of dict
        Figures of each pass: objective, gap, seconds ...
    converged_ : bool
        Whether `tolerance` or `relative_gap` was reached.
    n_iter_ : int
        Number of passes.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a data frame.
    C_ : float
        The C of the model.
    cv_results_ : dict
        With `cv` or `validation`: scores of each C, as GridSearchCV has them; `best_index_` is the index of C_.
    held_out_score_ : dict
        With them: `metric` (that of `scoring`), `value`, `std` and number of `folds` held out, of C_.
    training_score_ : dict or None
        Without them: `metric` ("accuracy", or "r2" in regression) and `value` on the rows that the model was trained
        on (`rows` is "training"), or the approximate leave-one-out accuracy of these rows ("left_out").
        `validation=0.1` says how good it is on rows it has not seen. None if it is not known: in a kernel machine of
        several classes, and if labels to be predicted are all equal.

    Examples
    --------
    >>> from streamsvm import StreamSVC
    >>> model = StreamSVC(C=10.0).fit([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> model.predict([[0.5], [2.5]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        C: float | Sequence[float] = 1.0,
        *,
        loss: str = "hinge",
        kernel: str = "linear",
        gamma: float | str = "scale",
        budget: int = 500,
        solver: str = "auto",
        features: Sequence[Any] | None = None,
        bias: float | None = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "one_vs_rest",
        cv: int | None = None,
        validation: float | None = None,
        scoring: str = "accuracy",
        probability: str | None = None,
        tolerance: float | None = None,
        relative_gap: float | str | None = "auto",
        max_passes: int = 1000,
        max_seconds: float | None = None,
        seed: int = 0,
        pace: str = "adaptive",
        threads: int | None = None,
        cache_bytes: int = 256 << 20,
        memory_bytes: int | None = None,
        solver_options: Mapping[str, Any] | None = None,
        input_options: dict[str, Any] | None = None,
        verbose: bool = False,
        **unknown: Any,
    ) -> None:
        keep_parameters(self, locals())

    @telling_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "StreamSVC":
        """Train on these rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame, path, list of paths, pyarrow dataset or iterator
            Rows; a file in any of the service's formats; or an iterator of chunks (X, y) or (X, y, sample_weight).
        y : array of shape (n_rows,), or the name or number of a column
            Labels, numbers or strings; for tables in files, and for a pyarrow dataset, the column that has them.
        sample_weight : array of shape (n_rows,), or the name or number of a column, default=None
            Factors of C; 0 leaves a row out.

        Returns
        -------
        StreamSVC
            This estimator.
        """
        self._begin_anew()
        self._fit_source(*self._labelled(X, y, sample_weight, Labels(), are_all=True))
        return self

    @telling_callbacks
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> "StreamSVC":
        """Add rows to the rows of earlier calls, and train on all of them, starting from the last solution.

        Training begins anew where there is no warm start: with more than two classes one against the rest, weights of
        rows or classes, a kernel, or logistic loss. A class without rows so far gets no weights, and is predicted for
        no row.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array of shape (n_classes,), default=None
            All labels that will occur; None: the labels so far, and the first call needs rows of two classes. While all
            rows have one class, that class is predicted for every row.

        Returns
        -------
        StreamSVC
            This estimator.
        """
        self._check_rows()
        if getattr(self, "_workspace", None) is None:
            self._labels = OwnLabels() if is_files(X) else Labels(() if classes is None else list(np.unique(classes)))
        self._add_source(*self._labelled(X, y, sample_weight, self._labels, are_all=False))
        return self
