"""Answers to prediction requests of any size: from a file to a file, so that nothing is sent before all is read."""

import json
import math
import tempfile
from collections.abc import Iterator
from typing import IO

from reader.errors import InputError
from reader.ingest import read_chunks
from service.errors import ServiceError
from service.predictor import Predictor


def predict_body(predictor: Predictor, body: IO[bytes]) -> IO[bytes]:
    """The answer to LIBSVM text, as a JSON document in a temporary file, from its start.

    `{"predictions": [{"label": l, "decision_value": d}, ...], "rows": n, "unknown_features": k}`
    Raises ServiceError for a body that cannot be read.
    """
    answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        answer.write(b'{"predictions":[')
        rows = unknown = 0
        for prediction in predictor.predict_text(read_chunks(body)):
            items = [
                json.dumps({"label": label, "decision_value": value if math.isfinite(value) else None})
                for label, value in zip(prediction.labels.tolist(), prediction.decision_values.tolist(), strict=True)
            ]
            answer.write(b"," * (rows > 0) + ",".join(items).encode())
            rows += len(items)
            unknown += prediction.unknown_features
        answer.write(f'],"rows":{rows},"unknown_features":{unknown}}}\n'.encode())
    except InputError as error:
        answer.close()
        raise ServiceError.of(error.problem()) from None
    answer.seek(0)
    return answer


def pieces(answer: IO[bytes]) -> Iterator[bytes]:
    """The file's content; it is closed at the end."""
    with answer:
        yield from read_chunks(answer)
