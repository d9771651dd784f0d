"""Model files for tests: written, read, cut and damaged."""

import io
import itertools
import json
import random
from collections.abc import Iterator

import onnx

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.storage.models.model_file import Model


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
