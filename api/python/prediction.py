"""Predictions of a fitted model, with scikit-learn or without."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamsvm.errors import told_plainly, warn
from streamsvm.labels import coefficients, in_order, label_array, stored, with_coefficients
from streamsvm.raw import document_predictions, is_read, predictions, raw_rows, with_columns
from streamsvm.reader.options import InputOptions, options_from
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.sources.files import is_url
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import check_ending, format_of
from streamsvm.service.models.predicting.applied import Explained, joined
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import rows_of_matrix
from streamsvm.service.predictions.engine import Engine
from streamsvm.service.predictions.file_rows import predictions_of_files
from streamsvm.service.predictions.request import PredictionRequest, format_of_destination, outputs_of
from streamsvm.service.remote.frames import column_names
from streamsvm.storage.files.durable import whole_file
from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.models.probability import probabilities
from streamsvm.storage.rows.csr import Array

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


_NO_PROBABILITIES = (
    'this model has no probabilities: train with probability="sigmoid" or loss="logistic"; '
    "decision_function ranks rows without them"
)


class Certificate(NamedTuple):
    """How near a model is to the optimum, over all rows, for its final weights; of several problems, the worst.

    m_plus, m_minus   M+ and M-, the largest and the smallest projected gradient; gap: M+ - M-, 0 at the optimum
    primal_objective, dual_objective   P(w) and D(alpha): P(w) - D(alpha) bounds how far P(w) is above its minimum
    relative_duality_gap   (P - D) / P

    A figure that the solver, loss or kernel does not determine is nan.
    """

    m_plus: float
    m_minus: float
    gap: float
    primal_objective: float
    dual_objective: float
    relative_duality_gap: float


class Predictions:
    """The predictions and the attributes of a fitted model.

    coef_       (1, n_features) float64, for three classes or more (n_classes, n_features); in regression (n_features,).
                A matrix of scipy.sparse, (1, n_features) also in regression, if few of more than 2 million features
                occur
    intercept_  (1,) or (n_classes,) float64
    support_vectors_, dual_coef_, n_support_, gamma_   a kernel machine has them in place of coef_: (n_support_,
                n_features) of scipy.sparse, float32; (1, n_support_) or (n_classes, n_support_) float64; two numbers
    classes_    (n_classes,), sorted; not in regression
    model_      the model in the form that the service stores
    """

    model_: Model
    coef_: Array
    intercept_: Array
    classes_: Array
    n_features_in_: int
    feature_names_in_: Array
    support_vectors_: sparse.csr_matrix
    dual_coef_: Array
    n_support_: int
    gamma_: float

    def _to_judge(self) -> Model:
        """Return the model with labels as files and frames write them."""
        return self._as_it_is()

    def predict_path(
        self,
        source: Source,
        destination: str | os.PathLike[str] | None = None,
        *,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        threads: int | None = None,
        input_options: dict[str, Any] | None = None,
    ) -> Any:
        """Predict files into a file, on all cores; a call that is repeated after a kill goes on where it was killed.

        Parameters
        ----------
        source : path, URL or pattern, or a list of them
            Rows in any format of training; files follow each other, those of a pattern by name.
        destination : path or URL, default None
            A name that ends in .csv, .ndjson or .parquet. The file is written whole, or not at all. None: an iterator
            over the predictions is returned, arrays (n_rows_of_a_batch,) as `predict` makes them.
        keep : names or numbers of columns of tables
            Columns that are copied to the file, before the predictions.
        outputs : list of "label", "decision_value", "probability", "contributions", default None
            Columns of predictions; None: all that the model has, except contributions. Regression has "value" in place
            of the first three.
        threads : int, default None
            Number of threads; None: the number of cores.
        input_options : dict, default None
            How the files are read; other options follow from the file's content, or are as in training.

        Returns
        -------
        int, or an iterator
            The number of rows that were written; without a destination, the iterator.

        Raises
        ------
        InvalidInput
            A file cannot be read, or the destination cannot be written.
        """
        predictor = Predictor(self._as_it_is())
        paths = [os.fspath(each) for each in ([source] if isinstance(source, str | os.PathLike) else source)]
        with told_plainly():
            options = options_from(input_options)
            if destination is None:
                return self._batches(predictor, paths, options)
            name = os.fspath(destination)
            format_, wanted = format_of_destination(name), outputs_of(predictor, outputs)
            request = PredictionRequest(paths, format_, options, tuple(keep), wanted)
            if not is_url(name):
                path = Path(name).resolve()
                return Engine(predictor, request, path.with_name(f".{path.name}.predicting"), threads).run(name).rows
            with TemporaryDirectory() as folder:
                return Engine(predictor, request, Path(folder) / "pieces", threads).run(name).rows

    def _batches(self, predictor: Predictor, paths: list[str], options: InputOptions) -> Iterator[Array]:
        with told_plainly():
            for prediction in predictions_of_files(predictor, paths, options):
                yield self._predicted_by(prediction.decision_values)

    def _values(self, X: Any) -> Array:
        if "model_" in vars(self):
            found = self._predicted(X, lambda: Predictor(self._as_it_is()))
            if found is not None:
                none = np.empty((0, *self.model_.w.shape[:-1]))
                return np.concatenate([none, *(each.decision_values for each in found)])
            X = with_columns(X, self.model_)
        X = self._checked(X)
        if self.model_.vectors is not None or self.model_.maps is not None:
            return Predictor(self._as_it_is()).decision_values(X)
        values = np.asarray(X @ np.atleast_2d(self.coef_).T) + self.intercept_
        return values[:, 0] if values.shape[1] == 1 else values

    def _predicted(self, X: Any, predictor: Callable[[], Predictor]) -> Iterator[Prediction] | None:
        """Predict the rows of a file, a frame of a table, dicts, strings or documents; return None for a matrix."""
        if is_read(X, self.model_):
            return predictions(X, predictor(), None)
        if (rows := raw_rows(X, self.model_)) is not None:
            return predictor().predictions(rows)
        return document_predictions(X, predictor()) if is_documents(X) else None

    def explain(self, X: Any, n: int | None = 10) -> Explained:
        """Explain the decision value of each row, with more than two classes that of the predicted class.

        X is what `predict` takes; n: the most contributions of a row, those of largest magnitude; None: all. The result
        has `base_values` (n_rows,), the decision value of the mean of the training rows; `contributions`, for each row
        a dict of feature -> w_j (x_j - mean_j), the largest first; and `against`, "mean", or "empty_row" if a row
        without features takes the place of a mean that is not known. A row's base value and all of its contributions
        add up to its decision value. Raises InvalidInput for a kernel, and for feature maps that mix features.
        """
        with told_plainly():
            predictor = Predictor(self._as_it_is()).explaining(self.model_.w.shape[-1] if n is None else n)
        found = self._predicted(X, lambda: predictor)
        if found is None:
            X = self._checked(with_columns(X, self.model_))
            found = chain.from_iterable(map(predictor.predictions, rows_of_matrix(X, self.model_.index_base)))
        return joined([each.explained for each in found if each.explained is not None])

    def __getattr__(self, name: str) -> Any:
        if name == "coef_" and "dual_coef_" in vars(self):
            raise AttributeError("coef_ is only available when using a linear kernel")
        if name == "predict_proba" and hasattr(type(self), name):
            raise AttributeError(_NO_PROBABILITIES)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict(self, X: Any) -> Array:
        """Return the predicted label of each row, (n_rows,); in regression, the predicted number.

        X is a matrix, a data frame, whose columns are found by name, or the path of a file. A model of documents also
        takes a list of str, as do its other methods.
        """
        return self._predicted_by(self._values(X))

    def _predicted_by(self, values: Array) -> Array:
        """Return the labels (n_rows,) of decision values; in regression, the values."""
        if self.model_.is_regression:
            return values
        return self.classes_[values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, as .npz, .onnx or LIBLINEAR's text (LIBSVM's for a kernel), by the file's ending.

        Names without an ending, and the endings .model and .txt, mean the text. Raises InvalidInput for another ending,
        and for a model that the format cannot hold.
        """
        with told_plainly():
            check_ending(path)
            format_ = format_of(path, self.model_.vectors is not None)
            pieces = MODEL_FORMATS[format_].write(self._as_it_is())
        with whole_file(path) as file:
            file.writelines(pieces)

    def _checked(self, X: Any) -> Any:
        """Return X as an array or a matrix of scipy.sparse, (n_rows, n_features). Raises ValueError."""
        name, n_features = type(self).__name__, self.model_.n_features
        if "feature_names_in_" in vars(self) and column_names(X) is None and n_features == self.n_features_in_:
            warn(f"X does not have valid feature names, but {name} was fitted with feature names")
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X, np.float64)
        if X.ndim != 2 or X.shape[1] != n_features:
            raise ValueError(f"X has shape {X.shape}, the model takes (n_rows, {n_features})")
        return X

    def _take(self, model: Model) -> None:
        """Set the attributes from a model whose labels are those of the input."""
        model = in_order(model)
        self.model_ = replace(model, labels=tuple(map(stored, model.labels)))
        self.n_features_in_ = model.n_features
        self._take_names(model.about.get("input"))
        self.intercept_ = np.atleast_1d(np.array(model.intercept, np.float64))
        if model.vectors is None:
            self.coef_ = coefficients(model)
            self._forget("dual_coef_", "support_vectors_", "n_support_", "gamma_")
        else:
            self.dual_coef_, self.support_vectors_ = np.atleast_2d(model.w), _as_matrix(model)
            self.n_support_, self.gamma_ = len(model.vectors), model.vectors.gamma
            self._forget("coef_")
        if not model.is_regression:
            self.classes_ = label_array(model.labels if model.is_multiclass else model.labels[::-1])

    def _take_names(self, input_: dict[str, Any] | None) -> None:
        """Set names and number of X's columns for a model of a table; categories make another number of features."""
        self._forget("feature_names_in_")
        if input_ is not None and input_.get("has_names") and "columns" in input_:
            self.feature_names_in_ = np.array(input_["columns"], object)
            self.n_features_in_ = len(input_["columns"])

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return the name of the feature of each weight in `coef_`, (n_features,) of str.

        A name is a column's; `column=word` for a category; `column is missing`; x0, x1, ... if columns have no names.
        """
        model, given = self.model_, self._given_names(input_features)
        if model.maps is not None and not model.maps.keeps_numbers:
            made = range(model.w.shape[-1])
            return np.array([f"{type(self).__name__.lower()}{place}" for place in made], object)
        numbers = range(model.index_base, model.index_base + model.n_features)
        known = feature_names(model.about.get("input"), set(numbers), model.index_base)
        names = [known.get(number, f"x{place}") for place, number in enumerate(numbers)]
        return np.array(names if given is None or known else given, object)

    def _given_names(self, given: Sequence[str] | None) -> Sequence[str] | None:
        """Return the names; raise ValueError, as scikit-learn does, if they cannot be those of the columns."""
        if given is None:
            return None
        if "feature_names_in_" in vars(self) and list(given) != self.feature_names_in_.tolist():
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise ValueError(f"input_features should have length equal to {self.n_features_in_}, got {len(given)}")
        return given

    def _forget(self, *names: str) -> None:
        """Delete attributes that an earlier fit, with another kernel, may have left."""
        for name in names:
            vars(self).pop(name, None)

    def _as_it_is(self) -> Model:
        """Return the model with the weights that `coef_` or `dual_coef_` has now: a caller may have changed them."""
        model = self.model_
        weights = self.coef_ if model.vectors is None else self.dual_coef_
        if sparse.issparse(weights):
            model = with_coefficients(model, weights)
            weights = model.w
        w = np.ascontiguousarray(weights.reshape(model.w.shape), np.float64)
        labels = () if model.is_regression else tuple(_plain(stored(label)) for label in self.classes_)
        return replace(model, w=w, labels=labels if model.is_multiclass else labels[::-1])


class Decisions(Predictions):
    """Decision values and probabilities of a model of classes."""

    def decision_function(self, X: Any) -> Array:
        """Return decision values (n_rows,), > 0 for classes_[1]; for more classes (n_rows, n_classes), largest wins."""
        return self._values(X)

    @property
    def predict_proba(self) -> Any:
        """Method X -> probabilities (n_rows, n_classes), in the order of classes_; models without any lack it."""
        if not self._has_probabilities():
            raise AttributeError(_NO_PROBABILITIES)

        def predict_proba(X: Any) -> Array:  # scikit-learn looks at the name of the function that it gets
            return self._predict_proba(X)

        return predict_proba

    def _predict_proba(self, X: Any) -> Array:
        values, sigmoid = self._values(X), self.model_.probability
        assert sigmoid is not None
        found = probabilities(values, sigmoid)
        return found[:, ::-1] if values.ndim == 1 else found

    def _has_probabilities(self) -> bool:
        return self.model_.probability is not None


class FittedModel(Decisions):
    """A model read from a file where scikit-learn is not installed."""

    def __init__(self, model: Model) -> None:
        self._take(model)


def is_documents(X: Any) -> bool:
    """Whether X is a list, or a vector, of texts."""
    several = isinstance(X, list | tuple) or (getattr(X, "ndim", None) == 1 and not sparse.issparse(X))
    return several and len(X) > 0 and all(isinstance(each, str) for each in X)


def _as_matrix(model: Model) -> sparse.csr_matrix:
    """Return the support vectors as a matrix (n_vectors, n_features)."""
    vectors = model.vectors
    assert vectors is not None
    parts = vectors.values, vectors.indices - model.index_base, vectors.indptr
    return sparse.csr_matrix(parts, (len(vectors), model.n_features))


def _plain(label: Any) -> Label:
    return str(label) if isinstance(label, str) else float(label)
