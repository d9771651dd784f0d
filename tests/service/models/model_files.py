"""Model files for tests: written, read, cut and damaged."""

import io
import itertools
import json
import random
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array


def export(name: str, model: Model) -> bytes:
    """The file of a model; the first word of the name is the format."""
    return b"".join(MODEL_FORMATS[name.split(maxsplit=1)[0]].write(model))


def read(name: str, data: bytes) -> Model:
    return MODEL_FORMATS[name.split(maxsplit=1)[0]].read(io.BytesIO(data))


def with_head(data: bytes, **changes: object) -> bytes:
    """An ONNX file with other values in its head."""
    file = onnx.load_model_from_string(data)
    (head,) = file.metadata_props
    head.value = json.dumps({**json.loads(head.value), **changes})
    return file.SerializeToString()


def check_onnxruntime(model: Model, X: Array) -> dict[str, Array]:
    """Return what onnxruntime finds for the rows X, which is what a Predictor finds, with the labels ascending."""
    data = export("onnx", model)
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    session, predictor = onnxruntime.InferenceSession(data), Predictor(model)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    values, ascending = predictor.decision_values(X), np.argsort(np.array(model.labels))
    ordered = values[:, ascending] if values.ndim > 1 else values[:, np.newaxis]
    assert found["decision_values"].dtype == np.float64
    np.testing.assert_allclose(found["decision_values"], ordered, rtol=1e-12, atol=1e-12)
    assert ("labels" in found) == bool(model.labels)
    if model.labels:
        assert found["labels"].tolist() == predictor.labels(values).tolist()
    shares = predictor.probabilities(values)
    assert ("probabilities" in found) == (shares is not None)
    if shares is not None:
        np.testing.assert_allclose(found["probabilities"], shares[:, ascending], rtol=1e-12, atol=1e-15)
    return found


def read_damaged(name: str, data: bytes, n_random: int) -> Iterator[Model]:
    """Flip bits of one byte at a time, of each once and of random ones; yields models that are read all the same."""
    rng = random.Random(0)
    flips = itertools.chain(
        ((place, 1 << rng.randrange(8)) for place in range(len(data))),
        ((rng.randrange(len(data)), rng.randrange(1, 256)) for _ in range(n_random)),
    )
    for place, mask in flips:
        damaged = bytearray(data)
        damaged[place] ^= mask
        try:
            model = read(name, bytes(damaged))
        except ModelFormatError:
            continue
        yield model
