"""What can be wrong with a model file: the one exception, and the check that every format shares."""

import math
from collections.abc import Iterator

import numpy as np
from pydantic_core import to_json

from service.errors import ModelFormatError
from storage.csr import Array
from storage.model_file import Model

WEIGHTS_A_PIECE = 1 << 15  # as text less than 1 MiB


def pieces(w: Array) -> Iterator[Array]:
    """The weights in order, in views of at most WEIGHTS_A_PIECE."""
    for begin in range(0, len(w), WEIGHTS_A_PIECE):
        yield w[begin : begin + WEIGHTS_A_PIECE]


def numbers(piece: Array) -> bytes:
    """Finite weights as text with commas between; each reads back as the same float."""
    return to_json(piece.tolist())[1:-1]


def checked(model: Model) -> Model:
    """The model itself; ModelFormatError if no training can have made it."""
    if model.w.ndim != 1 or model.w.dtype != np.float64:
        raise ModelFormatError(f"the weights are {model.w.ndim}-dimensional {model.w.dtype}, not a float64 vector")
    if not all(np.isfinite(piece).all() for piece in pieces(model.w)) or not math.isfinite(model.intercept):
        raise ModelFormatError("a weight is not finite", "train the model again, with scaled features or a smaller C")
    if not all(map(math.isfinite, model.labels)) or len(set(model.labels)) != len(model.labels):
        raise ModelFormatError(f"the labels {model.labels} are not two different numbers")
    if len(model.labels) not in (0, 2):
        raise ModelFormatError(f"there are {len(model.labels)} labels, not two, or none as in regression")
    if model.index_base not in (0, 1):
        raise ModelFormatError(f"index_base is 0 or 1, not {model.index_base}")
    return model


def check_intercept(model: Model, intercept: float) -> None:
    """ModelFormatError if the intercept stored beside its two factors is not their product."""
    if intercept != model.intercept:
        raise ModelFormatError(f"the intercept is {intercept!r}, bias times its weight is {model.intercept!r}")
