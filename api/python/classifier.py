"""StreamSVC: classification, linear or with a Gaussian kernel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.callbacks import telling_callbacks
from streamsvm.classification import Classification
from streamsvm.labels import Labels, OwnLabels
from streamsvm.parameters import described, keep_parameters
from streamsvm.sources import is_files


@described
class StreamSVC(Classification):
    """Support vector classification, of data that need not fit in memory; linear unless a kernel is asked for.

    It minimises 1/2 |w|^2 + C sum_i loss(y_i <w, x_i>), the sum being over all rows, and says how near it came:
    `certificate_`. With `kernel="rbf"` f(x) = sum_s beta_s exp(-gamma |z_s - x|^2) stands in place of <w, x>, with at
    most `budget` support vectors z_s of each class against the rest; how near that is nobody can say.

    Reading and training are those of the service, in processes that end with the call; small data are trained on in
    this process. Values are kept as float32; the weights are float64.

    Parameters
    ----------
    C : float or list of float, default=1.0
        Weight of the losses. Of several, `cv` says in how many folds they are compared.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        The loss; with "logistic" there are probabilities.
    field kernel
    field gamma
    field budget
    solver : str, default="auto"
        One of the service's solvers; "auto" is "bsca" with a kernel, else "streamsvm".
    features : list or None, default=None
        Feature maps that rows go through, in order: names, or dictionaries of a name and its options, as
        ["scale", {"pairs": {"squares": True}}]. The model carries them; `coef_` is then of the features that they make.
    field bias
    class_weight : dict, "balanced" or None, default=None
        Label -> factor of C; "balanced": n_rows / (n_classes * rows of the class), where a row of weight k counts as k
        rows.
    field multiclass
    cv : int or None, default=None
        Number of folds in which several values of C are compared; the model is of the C that wins, trained on all
        rows. With one C, number of folds in which rows are held out for `probability`.
    select_by : {"accuracy", "balanced_accuracy", "f1", "auc", "log_loss"}, default="accuracy"
        The C that wins has the best mean over the folds of this metric.
    probability : {"sigmoid"} or None, default=None
        "sigmoid" fits probabilities to decision values by Platt's method, on rows held out, in 5 folds unless `cv`
        says how many.
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
        Most bytes of all that training holds, in place of `cache_bytes`; this interpreter does not count.
    solver_options : dict or None, default=None
        Options of the solver, by the names that a job has for them.
    input_options : dict or None, default=None
        How files are read, by the names of the service: format, index_base, delimiter, normalize ...
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features; not with kernel "rbf".
    support_vectors_ : csr_matrix of shape (n_support_, n_features)
        With kernel "rbf"; those of all classes.
    dual_coef_ : ndarray of shape (1, n_support_) or (n_classes, n_support_)
        With kernel "rbf": beta, of each class against the rest if there are more than two.
    n_support_ : int
        With kernel "rbf": how many support vectors there are.
    gamma_ : float
        With kernel "rbf": gamma as a number.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Added to each decision value.
    certificate_ : Certificate
        m_plus, m_minus, gap, primal_objective, dual_objective, relative_duality_gap: of all rows, at the final weights.
        With kernel "rbf" only the primal objective is known, the others are nan.
    history_ : list of dict
        Figures of each pass: objective, gap, seconds ...
    converged_ : bool
        Whether `tolerance` or `relative_gap` was reached.
    n_iter_ : int
        Passes.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a data frame.
    C_ : float
        The C of the model.
    cv_results_ : dict
        With `cv`: scores of each C, as GridSearchCV has them; `best_index_` is the place of C_.

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
        select_by: str = "accuracy",
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
            Rows; a file in any of the service's formats; or chunks, (X, y) or (X, y, sample_weight) each.
        y : array of shape (n_rows,), or the name or number of a column
            Labels, numbers or strings; of tables in files, and of a pyarrow dataset, the column they are in.
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

        It begins anew where the engine has no warm start: with more than two classes one against the rest, weights of
        rows or classes, a kernel, or logistic loss. A class without rows so far gets no weights, and is predicted for
        no row.

        Parameters
        ----------
        X, y, sample_weight
            Those that `fit` takes.
        classes : array of shape (n_classes,), default=None
            All labels there will be; None: those that have come, and the first call needs rows of two. While all rows
            are of one class, that class is predicted for every row.

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
