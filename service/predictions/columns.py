"""The columns of predictions: names, and arrays of a batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from streamsvm.reader.parsers.tables.matching import Column
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
