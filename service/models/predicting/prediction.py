"""Answers to prediction requests of any size, in bounded memory.

Of the input nothing is kept but eight bytes a decision value, on disk when they are many. The answer begins
when all of the input has been read: a fault anywhere is answered by its problem, never by half an answer.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamsvm.service.models.labels import shown_label
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.storage.rows.csr import Array

_PIECE_BYTES = 1 << 16
_MOST_NAMES, _MOST_CHARACTERS = 10, 40  # of columns, told
_VALUE = np.dtype("<f8")


class BinaryFile(Protocol):
    """Where decision values are kept."""

    def write(self, data: bytes, /) -> int: ...
    def read(self, count: int, /) -> bytes: ...
    def seek(self, place: int, /) -> int: ...
    def close(self) -> None: ...


class Piece(NamedTuple):
    """What is said of some rows; probabilities only where there are any."""

    labels: list[Any]
    decision_values: list[Any]
    probabilities: list[list[float]] | None


@dataclass(frozen=True)
class Predicted:
    """Predictions that were made: `pieces` gives them once.

    rows, unknown_features   of the whole input
    unknown_columns          names of a table's columns that were left out
    """

    predictor: Predictor
    values: BinaryFile
    rows: int
    unknown_features: int
    unknown_columns: list[str]

    def pieces(self) -> Iterator[Piece]:
        """Some thousand rows at a time."""
        n_values = self.predictor.n_values
        row_bytes = _VALUE.itemsize * (n_values or 1)
        while data := self.values.read(max(1, _PIECE_BYTES // row_bytes) * row_bytes):
            values: Array = np.frombuffer(data, _VALUE)
            yield self._piece(values if n_values is None else values.reshape(-1, n_values))

    def close(self) -> None:
        """Remove what was kept."""
        self.values.close()

    def _piece(self, decision_values: Array) -> Piece:
        found = self.predictor.probabilities(decision_values)
        labels = self.predictor.labels(decision_values).tolist()
        return Piece(labels, decision_values.tolist(), None if found is None else found.tolist())


def keep(predictor: Predictor, predictions: Iterable[Prediction], values: BinaryFile) -> Predicted:
    """Run through all predictions and keep what the answer needs in a file, which the caller closes."""
    rows = unknown = 0
    columns: list[str] = []
    for prediction in predictions:
        values.write(prediction.decision_values.astype(_VALUE).tobytes())
        rows += len(prediction.decision_values)
        unknown += prediction.unknown_features
        columns = columns if prediction.match is None else prediction.match.unknown
    values.seek(0)
    return Predicted(predictor, values, rows, unknown, columns)


def as_json(predicted: Predicted) -> Iterator[bytes]:
    """`{"rows": n, "unknown_features": k, "labels": [...], "predictions": [{"label": l, "decision_value": d}, ...]}`

    Before the labels stands `"unknown_columns": {"count": n, "names": [...]}` if columns of a table were left out. A
    prediction of a model with probabilities has `"probability": [...]`, too, in the order of `labels`; of several
    classes `decision_value` is such a list. A prediction of regression is `{"value": v}`, and there are no labels.
    """
    classes = predicted.predictor.classes
    labels = f'"labels":{json.dumps(classes)},' if classes else ""
    unknown = {"count": len(predicted.unknown_columns), "names": first_names(predicted.unknown_columns)}
    columns = f'"unknown_columns":{json.dumps(unknown)},' if predicted.unknown_columns else ""
    head = f'"rows":{predicted.rows},"unknown_features":{predicted.unknown_features},{columns}{labels}'
    yield f'{{{head}"predictions":['.encode()
    comma = ""
    for piece in predicted.pieces():
        yield (comma + ",".join(_objects(predicted, piece))).encode()
        comma = ","
    yield b"]}\n"


def as_lines(predicted: Predicted) -> Iterator[bytes]:
    """The objects of the JSON document, one a line."""
    for piece in predicted.pieces():
        yield "".join(f"{line}\n" for line in _objects(predicted, piece)).encode()


def as_csv(predicted: Predicted) -> Iterator[bytes]:
    """Columns label and decision_value, or value alone.

    Of several classes a column decision_value_LABEL each; with probabilities a column probability_LABEL each.
    """
    yield _csv_lines([_columns(predicted.predictor)])
    for piece in predicted.pieces():
        yield _csv_lines(_cells(predicted.predictor, *row) for row in _rows(piece))


def as_text(predicted: Predicted) -> Iterator[bytes]:
    """A label or value a line, as LIBLINEAR's predict has it."""
    for piece in predicted.pieces():
        yield "".join(f"{shown_label(label)}\n" for label in piece.labels).encode()


def first_names(columns: Sequence[str]) -> list[str]:
    """The first few, as short as a header of HTTP needs them."""
    return [name[:_MOST_CHARACTERS] for name in columns[:_MOST_NAMES]]


ANSWERS: dict[str, Callable[[Predicted], Iterator[bytes]]] = {
    "application/json": as_json,
    "application/x-ndjson": as_lines,
    "text/csv": as_csv,
    "text/plain": as_text,
}


def _rows(piece: Piece) -> Iterator[tuple[Any, Any, Any]]:
    """Label, decision values and probabilities of each row."""
    return zip(piece.labels, piece.decision_values, piece.probabilities or repeat(None), strict=False)


def _objects(predicted: Predicted, piece: Piece) -> Iterator[str]:
    for label, values, shares in _rows(piece):
        if predicted.predictor.is_regression:
            yield f'{{"value":{_shown(values)}}}'
        else:
            more = "" if shares is None else f',"probability":{_shown(shares)}'
            yield f'{{"label":{json.dumps(label)},"decision_value":{_shown(values)}{more}}}'


def _shown(value: Any) -> str:
    """A number, or a list of them. A sum beyond float64 is a number JSON cannot say."""
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    return json.dumps(value) if abs(value) < np.inf else "null"


def _columns(predictor: Predictor) -> list[str]:
    if predictor.is_regression:
        return ["value"]
    classes = [shown_label(label) for label in predictor.classes]
    values = [f"decision_value_{name}" for name in classes] if predictor.n_values else ["decision_value"]
    shares = [f"probability_{name}" for name in classes] if predictor.has_probabilities else []
    return ["label", *values, *shares]


def _cells(predictor: Predictor, label: Any, values: Any, shares: list[float] | None) -> list[Any]:
    several = values if isinstance(values, list) else [values]
    return several if predictor.is_regression else [shown_label(label), *several, *(shares or [])]


def _csv_lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
