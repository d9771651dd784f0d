"""Answers to prediction requests of any size, in bounded memory.

Of the input nothing is kept but eight bytes a row, its decision value, on disk when they are many. The answer begins
when all of the input has been read: a fault anywhere is answered by its problem, never by half an answer.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from service.errors import needing_space
from service.predictor import Prediction, Predictor
from storage.csr import Array

_IN_MEMORY_BYTES = 1 << 20
_ROWS_A_PIECE = 1 << 13
_VALUE = np.dtype("<f8")


@dataclass(frozen=True)
class Predicted:
    """What came out: `pieces` gives it once.

    rows, unknown_features   of the whole input
    """

    predictor: Predictor
    values: IO[bytes]
    rows: int
    unknown_features: int

    def pieces(self) -> Iterator[tuple[list[float], list[float]]]:
        """Labels and decision values, some thousand rows at a time; the file is closed at the end."""
        with self.values:
            while data := self.values.read(_ROWS_A_PIECE * _VALUE.itemsize):
                decision_values: Array = np.frombuffer(data, _VALUE)
                yield self.predictor.labels(decision_values).tolist(), decision_values.tolist()


def keep(predictor: Predictor, predictions: Iterable[Prediction], directory: Path) -> Predicted:
    """Run through all predictions and keep what the answer needs, below `directory`. ServiceError out_of_space."""
    # The caller closes it, through `pieces`.
    values: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(directory))  # noqa: SIM115
    try:
        rows = unknown = 0
        for prediction in predictions:
            with needing_space():
                values.write(prediction.decision_values.astype(_VALUE).tobytes())
            rows += len(prediction.decision_values)
            unknown += prediction.unknown_features
        with needing_space():
            values.seek(0)
    except BaseException:
        values.close()
        raise
    return Predicted(predictor, values, rows, unknown)


def as_json(predicted: Predicted) -> Iterator[bytes]:
    """`{"rows": n, "unknown_features": k, "predictions": [{"label": l, "decision_value": d}, ...]}`

    A prediction of regression is `{"value": v}`.
    """
    yield f'{{"rows":{predicted.rows},"unknown_features":{predicted.unknown_features},"predictions":['.encode()
    comma = ""
    for piece in predicted.pieces():
        yield (comma + ",".join(_objects(predicted, *piece))).encode()
        comma = ","
    yield b"]}\n"


def as_lines(predicted: Predicted) -> Iterator[bytes]:
    """The objects of the JSON document, one a line."""
    for piece in predicted.pieces():
        yield "".join(f"{line}\n" for line in _objects(predicted, *piece)).encode()


def as_csv(predicted: Predicted) -> Iterator[bytes]:
    """Columns label and decision_value, or value alone."""
    if predicted.predictor.is_regression:
        yield b"value\r\n"
        for _, values in predicted.pieces():
            yield "".join(f"{value!r}\r\n" for value in values).encode()
        return
    yield b"label,decision_value\r\n"
    for piece in predicted.pieces():
        yield "".join(f"{label:.17g},{value!r}\r\n" for label, value in zip(*piece, strict=True)).encode()


def as_text(predicted: Predicted) -> Iterator[bytes]:
    """A label or value a line, as LIBLINEAR's predict has it."""
    for labels, _ in predicted.pieces():
        yield "".join(f"{label:.17g}\n" for label in labels).encode()


ANSWERS: dict[str, Callable[[Predicted], Iterator[bytes]]] = {
    "application/json": as_json,
    "application/x-ndjson": as_lines,
    "text/csv": as_csv,
    "text/plain": as_text,
}


def _objects(predicted: Predicted, labels: list[float], decision_values: list[float]) -> Iterator[str]:
    is_regression = predicted.predictor.is_regression
    for label, value in zip(labels, decision_values, strict=True):
        # A sum beyond float64 is a number JSON cannot say.
        shown = json.dumps(value) if abs(value) < np.inf else "null"
        yield f'{{"value":{shown}}}' if is_regression else f'{{"label":{label!r},"decision_value":{shown}}}'
