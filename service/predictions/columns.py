"""Names the columns that predictions of files write, and counts their rows, unknown features and right labels."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.parsers.tables.matching import Column, shown
from streamsvm.service.models.predicting.predictor import Prediction, Predictor, shown_label
from streamsvm.storage.rows.csr import Array

Output = Array | list[dict[str, float]]


class PredictedBatch(NamedTuple):
    """Predictions of some consecutive rows.

    kept     columns copied from the input, (n,) each
    outputs  arrays (n,), or (n, n_classes) with a number for each of the model's labels; contributions are a list
    """

    kept: Sequence[Column]
    outputs: list[Output]


class OutputColumns:
    """The columns that a prediction of files writes.

    kept        names of the columns copied from the input, in order; a name that an output also has is prefixed by
                input_
    kept_types  Arrow types of these columns; None: they are texts
    outputs     what is predicted, see `PredictionRequest`
    """

    def __init__(
        self, predictor: Predictor, keep: Sequence[str], kept_types: list[Any] | None, outputs: Sequence[str]
    ) -> None:
        self.predictor = predictor
        self.outputs = list(outputs)
        taken = {*self.outputs, *self.output_names()}
        self.kept = [f"input_{name}" if name in taken else name for name in keep]
        self.kept_types = kept_types

    def output_names(self) -> list[str]:
        """Return the names of the outputs in a table, where each label has a column: probability_1, probability_2."""
        return [name for output in self.outputs for name in self._flat(output)]

    def batch(self, prediction: Prediction, kept: Sequence[Column] = ()) -> PredictedBatch:
        """Return the columns to write for a batch of predictions."""
        return PredictedBatch(kept, [self._values(output, prediction) for output in self.outputs])

    def flat(self, batch: PredictedBatch) -> list[Output]:
        """Return the outputs of a batch in the order of `output_names`, (n,) each."""
        return [column for each in batch.outputs for column in ([each] if _is_narrow(each) else each.T)]  # type: ignore[union-attr]

    def _flat(self, output: str) -> list[str]:
        is_wide = output == "probability" or (output == "decision_value" and self.predictor.n_values)
        return [f"{output}_{shown_label(label)}" for label in self.predictor.classes] if is_wide else [output]

    def _values(self, output: str, prediction: Prediction) -> Output:
        if output == "label":
            return prediction.labels
        if output in ("base_value", "contributions"):
            assert prediction.explained is not None
            return prediction.explained.base_values if output == "base_value" else prediction.explained.contributions
        if output == "probability":
            values = self.predictor.probabilities(prediction.decision_values)
            assert values is not None
            return values
        return prediction.decision_values


def _is_narrow(output: Output) -> bool:
    return isinstance(output, list) or output.ndim == 1


@dataclass
class PredictionFigures:
    """
    rows              number of predicted rows
    unknown_features  stored values of features that the model does not know
    judged, right     rows with a label of the model's kind (number or text) in the input; those predicted as that label
    unknown_labels    judged rows whose label in the input is none of the model's
    squares           sum of the squared errors of the judged rows, in regression
    unknown_columns   number of columns of a table that the model does not have; unknown_names shows the first of them
    passed_names      whether named columns were matched by position, since the model has no column names
    """

    rows: int = 0
    unknown_features: int = 0
    judged: int = 0
    right: int = 0
    unknown_labels: int = 0
    squares: float = 0.0
    unknown_columns: int = 0
    unknown_names: str = ""
    passed_names: bool = False

    def add(self, prediction: Prediction, predictor: Predictor) -> None:
        """Count a batch of predictions that the predictor made."""
        labels, expected = prediction.labels, prediction.expected
        self.rows += len(labels)
        self.unknown_features += prediction.unknown_features
        if (match := prediction.match) is not None:
            self.unknown_columns, self.passed_names = len(match.unknown), match.passed_names
            self.unknown_names = shown(match.unknown)
        if labels.dtype.kind != expected.dtype.kind or _are_missing(expected).any():
            return
        self.judged += len(labels)
        self.right += int((labels == expected).sum())
        if not predictor.model.is_regression:
            self.unknown_labels += int((~np.isin(expected, np.array(predictor.model.labels))).sum())
        if labels.dtype.kind == "f":
            self.squares += float(((labels - expected) ** 2).sum())

    def add_all(self, other: dict[str, Any]) -> None:
        """Add other figures, given as `described` returns them."""
        for name in ("rows", "unknown_features", "judged", "right", "unknown_labels", "squares"):
            setattr(self, name, getattr(self, name) + other[name])
        if other["unknown_columns"] >= self.unknown_columns:
            self.unknown_columns, self.unknown_names = other["unknown_columns"], other["unknown_names"]
        self.passed_names |= other["passed_names"]

    def described(self) -> dict[str, Any]:
        """Return the figures as a dict for JSON."""
        return asdict(self)

    def summary(self, predictor: Predictor) -> str | None:
        """Write the accuracy or mean squared error as text; return None if no row was judged."""
        if not self.judged:
            return None
        if predictor.model.is_regression:
            return f"mean squared error {self.squares / self.judged:.6g}"
        accuracy = f"accuracy {self.right / self.judged:.4%} ({self.right}/{self.judged})"
        if not self.unknown_labels:
            return accuracy
        known = shown([f"{label:.17g}" if isinstance(label, float) else label for label in predictor.model.labels])
        rows = "1 row" if self.unknown_labels == 1 else f"{self.unknown_labels:,} rows"
        return f"{accuracy}; labels of {rows} are none of the model's: {known}"


def _are_missing(labels: Array) -> Array:
    return np.isnan(labels) if labels.dtype.kind == "f" else labels == ""
