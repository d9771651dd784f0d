"""From labels of any kind to a fitted classifier."""

from collections.abc import Mapping
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from streamsvm.base import StreamEstimator, as_python
from streamsvm.classes import with_absent
from streamsvm.labels import Labels, OwnLabels, balanced, check_balanced
from streamsvm.prediction import Decisions
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

    def _labelled(self, X: Any, y: Any, sample_weight: Any, labels: Labels) -> tuple[Source, Labels]:
        if not self._is_matrix(X, y, sample_weight):
            if not (y is None or is_column(y)):
                check_classification_targets(y)
            if is_files(X) and type(labels) is Labels:
                labels = OwnLabels()
            return self._source(X, y, sample_weight, labels), labels
        X, y, weight = self._in_memory(X, y, sample_weight)
        check_classification_targets(y)
        return self._matrix(X, labels.encode(y), weight), labels

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
            raise ValueError(f"all rows are of one class, {labels.decode(number)!r}: training needs two")

    def _complete(self, model: Model, labels: Labels) -> Model:
        return with_absent(model, [label for label in labels.known if label not in model.labels])

    def _has_probabilities(self) -> bool:
        if hasattr(self, "model_"):
            return super()._has_probabilities()
        return self.probability is not None or self.loss == "logistic"

    def _predict_proba(self, X: Any) -> Array:
        check_is_fitted(self, "model_")
        return super()._predict_proba(X)
