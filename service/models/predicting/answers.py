"""Writes predictions as JSON, CSV or text, for requests of any size in bounded memory.

`keep` predicts all rows and stores only their decision values, eight bytes each, in a file. The answer is written after
all of the input has been read: a fault anywhere in the input is answered by its problem, never by half an answer.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.explained import MOST_ROWS, Explained, joined
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.predictions.figures import PredictionFigures
from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import Array

_PIECE_BYTES = 1 << 16
_MOST_NAMES, MOST_CHARACTERS = 10, 40  # of the columns that an answer names
_VALUE = np.dtype("<f8")


class BinaryFile(Protocol):
    """The file that holds the decision values."""

    def write(self, data: bytes, /) -> int: ...
    def read(self, count: int, /) -> bytes: ...
    def seek(self, place: int, /) -> int: ...
    def close(self) -> None: ...


class PredictedPiece(NamedTuple):
    """The predictions of some rows.

    probabilities  None: the model has none
    why            (base value, contributions) of each row; None: they were not asked for
    """

    labels: list[Any]
    decision_values: list[Any]
    probabilities: list[list[float]] | None
    why: list[tuple[float, dict[str, float]]] | None


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

    def pieces(self) -> Iterator[PredictedPiece]:
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

    def _piece(self, decision_values: Array, begin: int) -> PredictedPiece:
        probabilities = self.predictor.probabilities(decision_values)
        labels = self.predictor.labels(decision_values).tolist()
        why = None
        if self.explained is not None:
            rows = slice(begin, begin + len(decision_values))
            why = list(zip(self.explained[0][rows], self.explained[1][rows], strict=True))
        return PredictedPiece(
            labels, decision_values.tolist(), None if probabilities is None else probabilities.tolist(), why
        )


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
    comma = ""
    for piece in predicted.pieces():
        yield (comma + ",".join(_objects(predicted, piece))).encode()
        comma = ","
    yield b"]}\n"


def as_lines(predicted: Predicted) -> Iterator[bytes]:
    """Write the predictions of `as_json`, one object a line."""
    for piece in predicted.pieces():
        yield "".join(f"{line}\n" for line in _objects(predicted, piece)).encode()


def as_csv(predicted: Predicted) -> Iterator[bytes]:
    """Write CSV with the columns label and decision_value; in regression, value.

    With more than two classes there is a column decision_value_LABEL for each, and with probabilities a column
    probability_LABEL for each. Explained predictions have base_value, and contributions as a JSON object.
    """
    yield _csv_lines([_columns(predicted.predictor) + (["base_value", "contributions"] if predicted.explained else [])])
    for piece in predicted.pieces():
        yield _csv_lines(_cells(predicted.predictor, *row) for row in _rows(piece))


def as_text(predicted: Predicted) -> Iterator[bytes]:
    """Write the predicted label or value of each row on a line, as LIBLINEAR's predict does."""
    for piece in predicted.pieces():
        yield "".join(f"{shown_label(label)}\n" for label in piece.labels).encode()


def shown_label(label: Label) -> str:
    """Return a label as text: a number has as few digits as read back exactly, and a whole number no decimal point."""
    return label if isinstance(label, str) else number_text(label)


def first_names(columns: Sequence[str]) -> list[str]:
    """Return the first _MOST_NAMES names, cut to MOST_CHARACTERS, so that they fit an HTTP header."""
    return [name[:MOST_CHARACTERS] for name in columns[:_MOST_NAMES]]


ANSWERS: dict[str, Callable[[Predicted], Iterator[bytes]]] = {
    "application/json": as_json,
    "application/x-ndjson": as_lines,
    "text/csv": as_csv,
    "text/plain": as_text,
}


def _rows(piece: PredictedPiece) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield the label, decision values, probabilities and `why` of each row; None for what there is none of."""
    columns = piece.labels, piece.decision_values, piece.probabilities or repeat(None), piece.why or repeat(None)
    return zip(*columns, strict=False)


def _objects(predicted: Predicted, piece: PredictedPiece) -> Iterator[str]:
    for label, values, probabilities, why in _rows(piece):
        more = "" if why is None else f',"base_value":{_json(why[0])},"contributions":{json.dumps(why[1])}'
        if predicted.predictor.is_regression:
            yield f'{{"value":{_json(values)}{more}}}'
        else:
            more = more if probabilities is None else f',"probability":{_json(probabilities)}{more}'
            yield f'{{"label":{json.dumps(label)},"decision_value":{_json(values)}{more}}}'


def _json(value: Any) -> str:
    """Write a number or a list of numbers as JSON; an infinite number becomes null."""
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    return json.dumps(value) if abs(value) < np.inf else "null"


def _columns(predictor: Predictor) -> list[str]:
    if predictor.is_regression:
        return ["value"]
    classes = [shown_label(label) for label in predictor.classes]
    values = [f"decision_value_{name}" for name in classes] if predictor.n_values else ["decision_value"]
    probabilities = [f"probability_{name}" for name in classes] if predictor.has_probabilities else []
    return ["label", *values, *probabilities]


def _cells(predictor: Predictor, label: Any, values: Any, probabilities: list[float] | None, why: Any) -> list[Any]:
    cells, more = values if isinstance(values, list) else [values], [] if why is None else [why[0], json.dumps(why[1])]
    return [*cells, *more] if predictor.is_regression else [shown_label(label), *cells, *(probabilities or []), *more]


def _csv_lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
