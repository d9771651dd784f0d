"""The format liblinear: LIBLINEAR's model text, which LIBLINEAR's own `predict` and `load_model` read.

    solver_type L2R_L1LOSS_SVC_DUAL     the loss
    nr_class 2
    label 1 -1                          positive decision values mean the first; regression has no such line
    nr_feature 3                        without the bias
    bias 1                              value of the constant feature, -1 for none
    w
    0.5                                 weight of LIBLINEAR's feature 1, and so on; the bias comes last
    input 8d1f3e02 {...}                how rows become features, if the model says so: see `texts`

With more than two classes a line has a weight for each, in the order of the labels. Labels that are texts are refused.
A sigmoid is left out: LIBLINEAR's `predict -b 1` has probabilities of logistic regression only.

LIBLINEAR numbers features from 1. If the input numbered them from 0, its feature f is LIBLINEAR's f + 1: add one to the
indices of a file before LIBLINEAR predicts it. `nr_feature` then has a leading zero, `nr_feature 03`, which C reads as
the same number, and `read` as base 0. Two leading zeros mean a model of a matrix, whose columns had no numbers.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from streamsvm.service.models.exports.errors import ModelFormatError, checked
from streamsvm.service.models.exports.mapped import columns_of, folded
from streamsvm.service.models.exports.texts import (
    floats,
    has_input,
    input_line,
    integer,
    label_number,
    last_line,
    n_classes_word,
    one_word,
    read_header,
    read_input,
)
from streamsvm.service.models.exports.weight_lines import dense_lines, read_rows, spread_lines
from streamsvm.service.models.numbering import NUMBERED
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array

SOLVER_TYPES = {
    "hinge": "L2R_L1LOSS_SVC_DUAL",
    "squared_hinge": "L2R_L2LOSS_SVC_DUAL",
    "logistic": "L2R_LR_DUAL",
    "epsilon_insensitive": "L2R_L1LOSS_SVR_DUAL",
    "squared_epsilon_insensitive": "L2R_L2LOSS_SVR_DUAL",
}
CRAMMER_SINGER = "MCSVM_CS"
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
    CRAMMER_SINGER: "hinge",
    **REGRESSION,
}
HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")
OTHER_FORMATS = "take the model as npz"


def write(model: Model) -> Iterator[bytes]:
    """Yield the text in pieces under 1 MiB.

    The call raises ModelFormatError if LIBLINEAR cannot hold the model: a label is no C int, the bias is negative,
    LIBLINEAR has no name for the loss, or there is a kernel.
    """
    if model.vectors is not None:
        raise ModelFormatError(
            "LIBLINEAR has no kernels", "take the model as npz or onnx, of two classes also as libsvm"
        )
    model = folded(model, "LIBLINEAR")
    return _stream(_head(checked(model)), model)


def _stream(head: bytes, model: Model) -> Iterator[bytes]:
    weights, places = np.atleast_2d(model.w).T, columns_of(model)
    yield head
    yield from dense_lines(weights) if places is None else spread_lines(weights, places, model.n_features)
    yield from dense_lines(_bias_weights(model))
    yield from input_line(model)


def _bias_weights(model: Model) -> Array:
    n_values = len(np.atleast_2d(model.w))
    return np.empty((0, n_values)) if model.bias is None else np.reshape(model.w_bias, (1, n_values))


def _head(model: Model) -> bytes:
    if model.bias is not None and model.bias < 0:
        raise ModelFormatError(f"LIBLINEAR reads the negative bias {model.bias!r} as no bias", OTHER_FORMATS)
    labels = (
        " ".join(["label", *(str(label_number(label, "LIBLINEAR", OTHER_FORMATS)) for label in model.labels)]) + "\n"
        if model.labels
        else ""
    )
    bias = -1.0 if model.bias is None else model.bias
    return (
        f"solver_type {_solver_type(model)}\nnr_class {n_classes_word(model, max(2, len(model.labels)))}\n{labels}"
        f"nr_feature {_zeros(model)}{model.n_features}\nbias {bias:.17g}\nw\n"
    ).encode()


def _zeros(model: Model) -> str:
    """Zeros written before `nr_feature`: none for base 1, one for base 0, two for columns without numbers."""
    return "" if model.index_base else "0" if model.about.get(NUMBERED, True) else "00"


def _solver_type(model: Model) -> str:
    loss = model.about.get("loss", "hinge")
    if loss not in SOLVER_TYPES:
        raise ModelFormatError(f"LIBLINEAR has no name for the loss {loss!r}", OTHER_FORMATS)
    if model.is_crammer_singer:
        return CRAMMER_SINGER
    return SOLVER_TYPES[loss]


def read(file: BinaryIO) -> Model:
    """Read a text of this program or of LIBLINEAR; `about` has the loss.

    Raises ModelFormatError unless it is a whole linear model of classes or of regression. A line feed must follow the
    last weight, so that a file cut inside that weight is refused.
    """
    header = read_header(file, "LIBLINEAR", HEADER, "w")
    header.setdefault("label", [])  # a model of regression has none
    if missing := [name for name in HEADER if name not in header]:
        raise ModelFormatError(f"the header has no {missing[0]}")
    solver, n_classes = one_word(header["solver_type"]), integer(one_word(header["nr_class"]))
    if solver not in LOSSES or n_classes < 2 or len(header["label"]) != (0 if solver in REGRESSION else n_classes):
        raise ModelFormatError("not a linear model of classes, nor of regression", "retrain with two labels or more")
    n_columns = 1 if solver in REGRESSION or (n_classes == 2 and solver != CRAMMER_SINGER) else n_classes
    labels = tuple(float(integer(word)) for word in header["label"])
    n_features = integer(word := one_word(header["nr_feature"]))
    zeros = len(word) - len(str(n_features))
    base = 0 if zeros else 1
    (bias,) = floats([one_word(header["bias"]).encode()])
    has_bias = not bias < 0  # nan counts as a bias here, so that `checked` refuses it
    about: dict[str, Any] = {"loss": LOSSES[solver], "solver_type": solver}
    n_bytes = None
    if has_input(one_word(header["nr_class"])):
        n_bytes, about["input"] = _weights_and_input(file)
    places, rows = read_rows(file, n_bytes, n_features + has_bias, n_columns)
    if zeros > 1:
        about[NUMBERED] = False
    if solver == CRAMMER_SINGER:
        about["multiclass"] = "crammer_singer"
    # With two classes LIBLINEAR uses the first column only, by Crammer and Singer, too.
    columns = rows if n_classes > 2 else rows[:, :1]
    n_weights = n_features if places is None else int(np.searchsorted(places, n_features))
    w, w_bias = np.split(columns, [n_weights])
    if has_bias and not len(w_bias):  # sparse rows leave out a weight of 0
        w_bias = np.zeros((1, columns.shape[1]))
    model = _model(np.ascontiguousarray(w.T), w_bias, labels, base, bias if has_bias else None, about)
    if places is None:
        return checked(model)
    return checked(replace(model, maps=listed_maps(n_features, base, places[:n_weights] + base)))


def _weights_and_input(file: BinaryIO) -> tuple[int, dict[str, Any]]:
    """The number of bytes of weights ahead, and the `input` in the last line; the file's position stays."""
    begin = file.tell()
    end = last_line(file, begin)
    file.seek(end)
    input_ = read_input(file.read())
    file.seek(begin)
    return end - begin, input_


def _model(
    w: Array, w_bias: Array, labels: tuple[float, ...], base: int, bias: float | None, about: dict[str, Any]
) -> Model:
    """Make a model of w (n_values, n_features) and w_bias (0 or 1, n_values)."""
    factors = tuple(w_bias.ravel().tolist())
    if len(w) > 1:
        return Model(w, labels, base, bias, factors or 0.0, about)
    return Model(w[0], labels, base, bias, factors[0] if factors else 0.0, about)
