"""LIBLINEAR's model text, the one that its own `predict` and `load_model` read.

    solver_type L2R_L1LOSS_SVC_DUAL     the loss
    nr_class 2
    label 1 -1                          the first is the side of positive decision values; no such line in regression
    nr_feature 3                        without the bias
    bias 1                              value of the constant feature, -1 for none
    w
    0.5                                 weight of LIBLINEAR's feature 1, and so on; that of the bias comes last

LIBLINEAR numbers features from 1. Of a model of numbering base 0, the feature f of the input is LIBLINEAR's f + 1: add
one to the indices of a file before LIBLINEAR predicts it.
"""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from service.exports.errors import ModelFormatError, checked, numbers, pieces
from storage.csr import Array
from storage.model_file import Model

SOLVER_TYPES = {
    "hinge": "L2R_L1LOSS_SVC_DUAL",
    "squared_hinge": "L2R_L2LOSS_SVC_DUAL",
    "logistic": "L2R_LR_DUAL",
    "epsilon_insensitive": "L2R_L1LOSS_SVR_DUAL",
    "squared_epsilon_insensitive": "L2R_L2LOSS_SVR_DUAL",
}
REGRESSION = {
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
}
LOSSES = {
    "L2R_L1LOSS_SVC_DUAL": "hinge",
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L1R_L2LOSS_SVC": "squared_hinge",
    "L2R_LR": "logistic",
    "L2R_LR_DUAL": "logistic",
    "L1R_LR": "logistic",
    **REGRESSION,
}
HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")
OTHER_FORMATS = "take the model as npz or json"
READ_BYTES = 1 << 20
LINE_BYTES = 1 << 10


def write(model: Model) -> Iterator[bytes]:
    """The text in pieces under 1 MiB.

    ModelFormatError, before the first piece, if LIBLINEAR cannot hold the model: its labels are C ints, its bias is not
    negative, and it knows a name for each loss.
    """
    head = _head(checked(model))
    tail = b"" if model.bias is None else numbers(np.array([model.w_bias])) + b"\n"
    return _stream(head, model.w, tail)


def _stream(head: bytes, w: Array, tail: bytes) -> Iterator[bytes]:
    yield head
    for piece in pieces(w):
        yield numbers(piece).replace(b",", b"\n") + b"\n"
    if tail:
        yield tail


def _head(model: Model) -> bytes:
    loss = model.about.get("loss", "hinge")
    if loss not in SOLVER_TYPES:
        raise ModelFormatError(f"LIBLINEAR has no name for the loss {loss!r}", OTHER_FORMATS)
    if model.bias is not None and model.bias < 0:
        raise ModelFormatError(f"LIBLINEAR takes the bias {model.bias!r} for none", OTHER_FORMATS)
    labels = "label {} {}\n".format(*map(_label, model.labels)) if model.labels else ""
    bias = -1.0 if model.bias is None else model.bias
    return (
        f"solver_type {SOLVER_TYPES[loss]}\nnr_class 2\n{labels}nr_feature {len(model.w)}\nbias {bias:.17g}\nw\n"
    ).encode()


def _label(label: float) -> int:
    if label != int(label) or not -(2**31) <= label < 2**31:
        raise ModelFormatError(f"LIBLINEAR's labels are 32-bit integers, {label!r} is not", OTHER_FORMATS)
    return int(label)


def read(file: BinaryIO) -> Model:
    """The model of a text, also one that LIBLINEAR wrote; `index_base` is 1, `about` has the loss.

    ModelFormatError unless it is a whole linear model of two classes, or of regression. The last weight must end with
    a line feed: without, a file cut inside it would pass.
    """
    header = _read_header(file)
    solver = _text(header["solver_type"])
    n_labels = 0 if solver in REGRESSION else 2
    if solver not in LOSSES or _text(header["nr_class"]) != "2" or len(header["label"]) != n_labels:
        raise ModelFormatError("not a linear model of two classes, nor of regression", "retrain with two labels")
    labels = tuple(float(_integer(word)) for word in header["label"])
    n_features = _integer(_text(header["nr_feature"]))
    (bias,) = _numbers(_text(header["bias"]).encode())
    has_bias = not bias < 0  # nan is refused with the other numbers that are not finite
    w = _read_weights(file, n_features + has_bias)
    about = {"loss": LOSSES[solver], "solver_type": solver}
    if not has_bias:
        return checked(Model(w, labels, 1, about=about))
    return checked(Model(w[:-1], labels, 1, bias, float(w[-1]), about))


def _read_header(file: BinaryIO) -> dict[str, list[str]]:
    """The words after each name of the header, all names present; leaves `file` at the first weight."""
    header: dict[str, list[str]] = {}
    while line := file.readline(LINE_BYTES):
        name, *words = line.decode("ascii", "replace").split() or [""]
        if name == "w" and not words and line.endswith(b"\n"):
            break
        if name and name not in HEADER:
            raise ModelFormatError("this is not the text of a LIBLINEAR model")
        header[name] = words
    else:
        raise ModelFormatError("the file ends inside the header")
    header.setdefault("label", [])  # a model of regression has none
    if missing := [name for name in HEADER if name not in header]:
        raise ModelFormatError(f"the header has no {missing[0]}")
    return header


def _text(words: list[str]) -> str:
    if len(words) != 1:
        raise ModelFormatError("a line of the header is not a name and a value")
    return words[0]


def _integer(word: str) -> int:
    if not word.removeprefix("-").isdecimal() or len(word) > 11:
        raise ModelFormatError("a number of the header is not an integer")
    return int(word)


def _read_weights(file: BinaryIO, count: int) -> Array:
    """(count,) float64: what is left of the file."""
    parts: list[Array] = []
    found, rest = 0, b""
    while chunk := file.read(READ_BYTES):
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        parts.append(np.array(_numbers(lines), np.float64))
        found += len(parts[-1])
        if found > count or len(rest) > LINE_BYTES:
            raise ModelFormatError(f"more than the {count} weights of the header")
    if found != count or rest.strip():
        raise ModelFormatError(f"the file ends inside its weights: {found} of {count} are whole")
    return np.concatenate(parts) if parts else np.empty(0)


def _numbers(text: bytes) -> list[float]:
    try:
        if b"_" in text:  # Python reads 1_0 as 10, C does not
            raise ValueError
        return list(map(float, text.split()))
    except ValueError:
        raise ModelFormatError("a weight or the bias is not a number") from None
