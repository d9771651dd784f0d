"""From labels of any kind to a fitted classifier."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from streamsvm.base import StreamEstimator, decoded
from streamsvm.classes import with_absent
from streamsvm.labels import Labels, OwnLabels, balanced, check_balanced, label_text
from streamsvm.parameters import as_python
from streamsvm.prediction import Decisions
from streamsvm.raw import has_labels, judged
from streamsvm.service.models.heaviest import input_about
from streamsvm.sources import Source, is_column, is_files
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array
from streamsvm.workspace import Workspace


class Classification(ClassifierMixin, Decisions, StreamEstimator):
    """A classifier of the engine; StreamSVC has the parameters."""

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
            check_balanced(self.class_weight)
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
            Rows; of a frame or a file.
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

    def _to_judge(self) -> Model:
        """The model with True and False as the words that they are in files."""
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
        """Take a model that predicts the one class of all rows so far."""
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
        return self.probability is not None or self.loss == "logistic"

    def _predict_proba(self, X: Any) -> Array:
        check_is_fitted(self, "model_")
        return super()._predict_proba(X)
