"""StreamSVR: linear regression with support vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from streamsvm.base import StreamEstimator, described, keep_parameters
from streamsvm.labels import OwnLabels
from streamsvm.raw import has_labels, judged
from streamsvm.results import telling_callbacks
from streamsvm.sources import Source


@described
class StreamSVR(RegressorMixin, StreamEstimator):
    """Linear support vector regression of data that need not fit in memory.

    It minimises 1/2 |w|^2 + C sum_i max(0, |<w, x_i> - y_i| - epsilon) over all rows i, or with the squares of these
    terms. A row may have a weight, a factor of C for that row.

    Parameters
    ----------
    C : float, list of float or str, default=1.0
        Weight of the losses. Several values, also "1e-3:10:9", are compared by cross-validation with `cv` folds, or on
        the share `validation` of the rows. "auto" looks for the best C in the same way, by default with 5 folds;
        "auto-1se" takes the smallest C whose score is within one standard error of the best.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The loss.
    field epsilon
    solver, features, cv, cache_bytes, memory_bytes, solver_options, input_options, verbose
        As in StreamSVC.
    field bias
    field validation
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error", "r2"}, default="neg_mean_squared_error"
        The score by which C is selected: the best C has the highest mean of it over the folds.
    field tolerance
    relative_gap : float, "auto" or None, default="auto"
        Training stops when the relative duality gap (P - D) / P is certified to be at most this; "auto": 0.0001, or
        None if there is a `tolerance`; None: never. If both are numbers, training stops when both hold.
    field max_passes
    field max_seconds
    field seed
    field pace
    field threads

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        Added to each prediction.
    certificate_, history_, converged_, n_iter_, n_features_in_, feature_names_in_, C_, cv_results_,
    held_out_score_, training_score_
        Those of StreamSVC.

    Examples
    --------
    >>> from streamsvm import StreamSVR
    >>> model = StreamSVR(C=100.0, epsilon=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    >>> model.predict([[1.0]]).round(1).tolist()
    [2.0]
    """

    def __init__(
        self,
        C: float | Sequence[float] = 1.0,
        *,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        solver: str = "auto",
        features: Sequence[Any] | None = None,
        bias: float | None = 1.0,
        cv: int | None = None,
        validation: float | None = None,
        scoring: str = "neg_mean_squared_error",
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "StreamSVR":
        """Train on these rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame, path, list of paths, pyarrow dataset or iterator
            Rows, as in StreamSVC.fit.
        y : array of shape (n_rows,), or the name or number of a column
            Numbers to be predicted.
        sample_weight : array of shape (n_rows,), or the name or number of a column, default=None
            Factors of C; 0 leaves a row out.

        Returns
        -------
        StreamSVR
            This estimator.
        """
        self._begin_anew()
        self._fit_source(self._targeted(X, y, sample_weight, are_all=True), OwnLabels())
        return self

    @telling_callbacks
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "StreamSVR":
        """Add rows to the rows of earlier calls, and train on all of them.

        Parameters
        ----------
        X, y, sample_weight
            Rows, targets and weights in any form that `fit` takes.

        Returns
        -------
        StreamSVR
            This estimator.
        """
        self._check_rows()
        self._add_source(self._targeted(X, y, sample_weight, are_all=False), OwnLabels())
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2.

        Parameters
        ----------
        X, y, sample_weight
            As in `StreamSVC.score`; y are numbers.
        """
        check_is_fitted(self, "model_")
        if not has_labels(X, y, self.model_):
            return super().score(X, y, sample_weight)
        found, expected = judged(X, self._as_it_is(), y)
        return float(r2_score(expected, found, sample_weight=sample_weight))

    def _targeted(self, X: Any, y: Any, sample_weight: Any, are_all: bool) -> Source:
        if not self._is_matrix(X, y, sample_weight):
            return self._source(X, y, sample_weight, OwnLabels())
        X, y, weight = self._in_memory(X, y, sample_weight, y_numeric=True)
        return self._matrix(X, OwnLabels().encode(y), weight, are_all, has_labels=False)
