"""Writes predictions as JSON, CSV or text, for requests of any size in bounded memory.

`keep` predicts all rows and stores only their decision values, eight bytes each, in a file. The answer is written after
all of the input has been read: a fault anywhere in the input is answered by its problem, never by half an answer.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.applied import MOST_ROWS, Explained, joined
from streamsvm.service.models.predicting.predictor import Prediction, Predictor, shown_label
from streamsvm.service.predictions.columns import OutputColumns, PredictionFigures
from streamsvm.service.predictions.request import outputs_of
from streamsvm.service.predictions.writers import CsvWriter, NdjsonWriter
from streamsvm.service.shares import RoomFile
from streamsvm.storage.rows.csr import Array

_PIECE_BYTES = 1 << 16
_MOST_NAMES, MOST_CHARACTERS = 10, 40  # of the columns that an answer names
_VALUE = np.dtype("<f8")
BinaryFile = io.BytesIO | RoomFile  # that holds the decision values


@dataclass(frozen=True)
class Predicted:
    """The predictions of a whole input; `pieces` can be read once.

    values            the file of decision values
    rows              rows of the input
    unknown_features  stored values of features that the model does not know
    unknown_columns   names of a table's columns that were left out
    judged            how labels in the input compare with the predictions; None: no row has one of the model's labels
    explained         base values, contributions and `against` of all rows, see `Explained`; None: not asked for
    """

    predictor: Predictor
    values: BinaryFile
    rows: int
    unknown_features: int
    unknown_columns: list[str]
    judged: str | None
    explained: Sequence[Any] | None = None

    def pieces(self) -> Iterator[Prediction]:
        """Yield the predictions in the order of rows, up to _PIECE_BYTES of decision values at a time."""
        self.values.seek(0)
        n_values = self.predictor.n_values
        row_bytes, begin = _VALUE.itemsize * (n_values or 1), 0
        while data := self.values.read(max(1, _PIECE_BYTES // row_bytes) * row_bytes):
            values: Array = np.frombuffer(data, _VALUE)
            yield self._piece(values if n_values is None else values.reshape(-1, n_values), begin)
            begin += len(data) // row_bytes

    def close(self) -> None:
        """Close the file of decision values; it has no name, so this also removes it."""
        self.values.close()

    def _piece(self, decision_values: Array, begin: int) -> Prediction:
        labels, why = self.predictor.labels(decision_values), None
        if self.explained is not None:
            base_values, contributions, against = self.explained
            rows = slice(begin, begin + len(decision_values))
            why = Explained(np.array(base_values[rows]), contributions[rows], against)
        return Prediction(labels, decision_values, labels, 0, None, why)

    @property
    def columns(self) -> OutputColumns:
        """The columns of the answer."""
        why = () if self.explained is None else ("base_value", "contributions")
        return OutputColumns(self.predictor, (), None, (*outputs_of(self.predictor, None), *why))


def keep(predictor: Predictor, predictions: Iterable[Prediction], values: BinaryFile) -> Predicted:
    """Make all predictions, and write their decision values to the file `values`, which the caller closes."""
    return Predicted(predictor, values, *written(predictor, predictions, values.write))


def written(
    predictor: Predictor, predictions: Iterable[Prediction], write: Callable[[bytes], object]
) -> tuple[int, int, list[str], str | None, list[Any] | None]:
    """Make all predictions and write their decision values; return the last five fields of `Predicted`.

    Raises ServiceError too_many_rows if more rows than MOST_ROWS are to be explained.
    """
    rows = unknown = 0
    why = list[Explained]()
    columns, figures = list[str](), PredictionFigures()
    for prediction in predictions:
        write(prediction.decision_values.astype(_VALUE).tobytes())
        rows += len(prediction.decision_values)
        unknown += prediction.unknown_features
        columns = columns if prediction.match is None else prediction.match.unknown
        figures.add(prediction, predictor)
        if prediction.explained is not None:
            why.append(prediction.explained)
            if rows > MOST_ROWS:
                hint = "Send fewer rows, or ask for the output contributions of a prediction of files."
                raise ServiceError("too_many_rows", f"an answer explains at most {MOST_ROWS} rows", hint)
    found = joined(why) if why else None
    told = None if found is None else [found.base_values.tolist(), found.contributions, found.against]
    # Rows of LIBSVM text have some label, even where none is known.
    is_judged = figures.judged > figures.unknown_labels
    return rows, unknown, columns, figures.summary(predictor) if is_judged else None, told


def as_json(predicted: Predicted) -> Iterator[bytes]:
    """Write `{"rows": n, "unknown_features": k, "labels": [...], "predictions": [...]}`.

    A prediction is `{"label": l, "decision_value": d}`. With more than two classes `decision_value` is a list, in the
    order of `labels`; so is `"probability"`, if the model has probabilities. In regression a prediction is
    `{"value": v}`, and there are no labels. If columns of a table were left out, `"unknown_columns":
    {"count": n, "names": [...]}` stands before the labels; so does `"judged"` if rows had labels.
    Explained predictions have `"base_value"` and `"contributions"`, and `"against"` stands before the labels.
    """
    classes = predicted.predictor.classes
    labels = f'"labels":{json.dumps(classes)},' if classes else ""
    unknown = {"count": len(predicted.unknown_columns), "names": first_names(predicted.unknown_columns)}
    columns = f'"unknown_columns":{json.dumps(unknown)},' if predicted.unknown_columns else ""
    judged = f'"judged":{json.dumps(predicted.judged)},' if predicted.judged else ""
    against = f'"against":{json.dumps(predicted.explained[2])},' if predicted.explained else ""
    head = f'"rows":{predicted.rows},"unknown_features":{predicted.unknown_features},{columns}{judged}{against}{labels}'
    yield f'{{{head}"predictions":['.encode()
    comma = b""
    for lines in as_lines(predicted):
        yield comma + b",".join(lines.splitlines())
        comma = b","
    yield b"]}\n"


def as_lines(predicted: Predicted) -> Iterator[bytes]:
    """Write the predictions of `as_json`, one object a line."""
    columns = predicted.columns
    return map(NdjsonWriter(columns).lines, map(columns.batch, predicted.pieces()))


def as_csv(predicted: Predicted) -> Iterator[bytes]:
    """Write CSV with the columns label and decision_value; in regression, value.

    With more than two classes there is a column decision_value_LABEL for each, and with probabilities a column
    probability_LABEL for each. Explained predictions have base_value, and contributions as a JSON object.
    """
    columns = predicted.columns
    writer = CsvWriter(columns, "\r\n")
    return chain([writer.head()], map(writer.lines, map(columns.batch, predicted.pieces())))


def as_text(predicted: Predicted) -> Iterator[bytes]:
    """Write the predicted label or value of each row on a line, as LIBLINEAR's predict does."""
    for piece in predicted.pieces():
        yield "".join(f"{shown_label(label)}\n" for label in piece.labels.tolist()).encode()


def first_names(columns: Sequence[str]) -> list[str]:
    """Return the first _MOST_NAMES names, cut to MOST_CHARACTERS, so that they fit an HTTP header."""
    return [name[:MOST_CHARACTERS] for name in columns[:_MOST_NAMES]]


ANSWERS: dict[str, Callable[[Predicted], Iterator[bytes]]] = {
    "application/json": as_json,
    "application/x-ndjson": as_lines,
    "text/csv": as_csv,
    "text/plain": as_text,
}
