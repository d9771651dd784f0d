"""The format liblinear: LIBLINEAR's model text, which LIBLINEAR's own `predict` and `load_model` read.

    solver_type L2R_L1LOSS_SVC_DUAL     the loss
    nr_class 2
    label 1 -1                          positive decision values mean the first; regression has no such line
    nr_feature 3                        without the bias
    bias 1                              value of the constant feature, -1 for none
    w
    0.5                                 weight of LIBLINEAR's feature 1, and so on; the bias comes last
    input 8d1f3e02 {...}                how rows become features, if the model says so: see `texts`

With more than two classes a line has a weight for each class, in the order of the labels. Text labels are refused.
A sigmoid is left out: LIBLINEAR's `predict -b 1` has probabilities of logistic regression only.

LIBLINEAR numbers features from 1. If the input numbered them from 0, its feature f is LIBLINEAR's f + 1: add one to the
indices of a file before LIBLINEAR predicts it. `nr_feature` then has a leading zero, `nr_feature 03`, which C reads as
the same number, and `read` as base 0. Two leading zeros mean a model of a matrix, whose columns had no numbers.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from streamsvm.service.models.exports.parts import (
    WEIGHTS_A_PIECE,
    ModelFormatError,
    check_holds,
    checked,
    columns_of,
    floats,
    folded,
    has_input,
    input_line,
    integer,
    last_line,
    n_classes_word,
    numbers,
    one_word,
    read_header,
    read_input,
)
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import NUMBERED, Model
from streamsvm.storage.rows.csr import DENSE_WIDTH, Array

_READ_BYTES = 1 << 20
_LINE_BYTES = 1 << 10  # of a weight
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


def write(model: Model) -> Iterator[bytes]:
    """Yield the text in pieces under 1 MiB.

    The call raises ModelFormatError if LIBLINEAR cannot hold the model, see `refusal`, or has no name for its loss.
    """
    check_holds("liblinear", model)
    model = checked(folded(model, "LIBLINEAR"))
    return _stream(_head(model), model)


def _stream(head: bytes, model: Model) -> Iterator[bytes]:
    weights, places = np.atleast_2d(model.w).T, columns_of(model)
    yield head
    yield from _dense_lines(weights) if places is None else _spread_lines(weights, places, model.n_features)
    if model.bias is not None:
        yield from _dense_lines(np.reshape(model.w_bias, (1, -1)))
    yield from input_line(model)


def _head(model: Model) -> bytes:
    labels = " ".join(["label", *(str(int(label)) for label in model.labels)]) + "\n" if model.labels else ""
    bias = -1.0 if model.bias is None else model.bias
    return (
        f"solver_type {_solver_type(model)}\nnr_class {n_classes_word(model, max(2, len(model.labels)))}\n{labels}"
        f"nr_feature {_zeros(model)}{model.n_features}\nbias {bias:.17g}\nw\n"
    ).encode()


def _zeros(model: Model) -> str:
    """Return the zeros to write before `nr_feature`: none for index_base 1, one for 0, two for unnumbered columns."""
    return "" if model.index_base else "0" if model.about.get(NUMBERED, True) else "00"


def _solver_type(model: Model) -> str:
    loss = model.about.get("loss", "hinge")
    if loss not in SOLVER_TYPES:
        raise ModelFormatError(f"LIBLINEAR has no name for the loss {loss!r}", "take the model as npz")
    if model.is_crammer_singer:
        return CRAMMER_SINGER
    return SOLVER_TYPES[loss]


def read(file: BinaryIO) -> Model:
    """Read a text of this program or of LIBLINEAR; `about` of the model has the loss.

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
    places, rows = _read_rows(file, n_bytes, n_features + has_bias, n_columns)
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
    """Return how many bytes of weights follow, and the `input` of the last line; keep the file's position."""
    begin = file.tell()
    end = last_line(file, begin)
    file.seek(end)
    input_ = read_input(file.read())
    file.seek(begin)
    return end - begin, input_


def _model(
    w: Array, w_bias: Array, labels: tuple[float, ...], base: int, bias: float | None, about: dict[str, Any]
) -> Model:
    """Make a model of w (n_values, n_features) and w_bias: (1, n_values), or (0, n_values) without a bias."""
    factors = tuple(w_bias.ravel().tolist())
    if len(w) > 1:
        return Model(w, labels, base, bias, factors or 0.0, about)
    return Model(w[0], labels, base, bias, factors[0] if factors else 0.0, about)


def _dense_lines(rows: Array) -> Iterator[bytes]:
    """Yield a line for each row of a matrix of weights (n, n_values), in pieces under 1 MiB."""
    size = _rows_a_piece(rows)
    for begin in range(0, len(rows), size):
        yield _lines(rows[begin : begin + size])


def _spread_lines(weights: Array, places: Array, n_rows: int) -> Iterator[bytes]:
    """Yield `n_rows` lines: line places[i] has weights[i], others have zeros; weights (k, n_values), places ascend."""
    size = _rows_a_piece(weights)
    zeros = b" ".join([b"0"] * weights.shape[1]) + b"\n"
    full_piece = zeros * size
    for begin in range(0, n_rows, size):
        end = min(begin + size, n_rows)
        here = slice(*np.searchsorted(places, (begin, end)))
        if here.start < here.stop:
            rows = np.zeros((end - begin, weights.shape[1]))
            rows[places[here] - begin] = weights[here]
            yield _lines(rows)
        else:
            yield full_piece if end - begin == size else zeros * (end - begin)


def _rows_a_piece(rows: Array) -> int:
    return max(1, WEIGHTS_A_PIECE // rows.shape[1])


def _lines(rows: Array) -> bytes:
    """Write a line for each row, with spaces between its numbers."""
    return numbers(rows)[1:-1].replace(b"],[", b"\n").replace(b",", b" ") + b"\n"


def _read_rows(file: BinaryIO, n_bytes: int | None, n_rows: int, n_columns: int) -> tuple[Array | None, Array]:
    """Read lines of weights, float64, from the next `n_bytes` of the file (None: from the rest of it).

    Up to DENSE_WIDTH rows: returns None and all rows, (n_rows, n_columns). More: returns the ascending numbers (k,) of
    the rows that are not all 0, and these rows, (k, n_columns).
    """
    is_sparse = n_rows > DENSE_WIDTH
    places, parts = [np.empty(0, np.int64)], [np.empty(0)]
    begin = 0
    for part in _numbers(_chunks(file, n_bytes), n_rows * n_columns, _LINE_BYTES * n_columns):
        if is_sparse:
            non_zero = np.flatnonzero(part)
            places.append(begin + non_zero)
            parts.append(part[non_zero])
        else:
            parts.append(part)
        begin += len(part)
    if not is_sparse:
        return None, np.concatenate(parts).reshape(n_rows, n_columns)
    place = np.concatenate(places)
    features, row = np.unique(place // n_columns, return_inverse=True)
    rows = np.zeros((len(features), n_columns))
    rows[row, place % n_columns] = np.concatenate(parts)
    return features, rows


def _chunks(file: BinaryIO, n_bytes: int | None) -> Iterator[bytes]:
    """Read `n_bytes` of the file in chunks; None: the rest of it."""
    remaining = n_bytes
    while chunk := file.read(_READ_BYTES if remaining is None else min(_READ_BYTES, remaining)):
        yield chunk
        remaining = None if remaining is None else remaining - len(chunk)


def _numbers(chunks: Iterator[bytes], count: int, line_bytes: int) -> Iterator[Array]:
    """Yield `count` numbers in arrays; lines have at most `line_bytes`. Raises ModelFormatError for another count."""
    n_read, rest = 0, b""
    for chunk in chunks:
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        part = _values(lines)
        n_read += len(part)
        if n_read > count or len(rest) > line_bytes:
            raise ModelFormatError(f"the file has more than the {count} weights that its header says")
        yield part
    if n_read != count or rest.strip():
        raise ModelFormatError(f"the file ends inside its weights: {n_read} of {count} are whole")


def _values(lines: bytes) -> Array:
    """Read the numbers in lines; lines of zeros, which are most in a wide model, are not parsed."""
    words = lines.split()
    return np.array(floats(words), np.float64) if lines.strip(b"0 \n") else np.zeros(len(words))
