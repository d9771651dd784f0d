"""The format libsvm: LIBSVM's model text, which LIBSVM's own `svm-predict` reads; a kernel machine of two classes.

    svm_type c_svc
    kernel_type rbf
    gamma 0.5
    nr_class 2
    total_sv 3
    rho -0.25                   minus the intercept
    label 1 -1                  positive decision values mean the first
    probA -1.5                  A and B of the sigmoid, if there is one: `svm-predict -b 1` uses it
    probB 0.1
    nr_sv 2 1                   numbers of vectors with a positive beta, which come first, and of the others
    SV
    0.75 1:0.5 4:0.0            beta and the vector
    0.5 2:1.0
    -1.25 1:-0.5 3:2.0

A model that says how rows become features has one more line, which LIBSVM ignores: see `texts`.

Features are numbered from 0 or 1, as in the input: `svm-predict` takes the file that the model was trained on as it is.
The format does not say how many features there are, nor whether they begin at 0. So the first vector gets a value 0 at
the last feature, and at feature 0 of index_base 0, unless some vector has a value there. Other zeros are left out.

With more than two classes LIBSVM needs a machine for each pair of them, so one against the rest is refused.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np

from streamsvm.service.models.exports.parts import (
    PIECE_BYTES,
    WEIGHTS_A_PIECE,
    ModelFormatError,
    check_holds,
    checked,
    floats,
    has_input,
    input_line,
    integer,
    n_classes_word,
    numbers,
    one_word,
    read_header,
    read_input,
)
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

NEEDED = ("svm_type", "kernel_type", "gamma", "nr_class", "total_sv", "rho", "label", "nr_sv")
SIGMOID = ("probA", "probB")
HEADER = {*NEEDED, *SIGMOID, "degree", "coef0", "prob_density_marks"}


def write(model: Model) -> Iterator[bytes]:
    """Yield the text in pieces under 1 MiB.

    The call raises ModelFormatError if LIBSVM cannot hold the model, see `refusal`.
    """
    check_holds("libsvm", checked(model))
    if model.vectors is None or model.is_regression:
        raise ModelFormatError("LIBSVM's text has no place for regression", "take the model as npz or onnx")
    head = _head(model, int(np.count_nonzero(model.w <= 0)))
    parts = _parts(head, _without_zeros(model.vectors), model.w, model.index_base)
    return _batched(chain(parts, input_line(model)))


def _head(model: Model, n_second: int) -> bytes:
    assert model.vectors is not None
    labels = " ".join(str(int(label)) for label in model.labels)
    sigmoid = "".join(f"probA {A!r}\nprobB {B!r}\n" for A, B in model.sigmoid or ())
    return (
        f"svm_type c_svc\nkernel_type rbf\ngamma {model.vectors.gamma!r}\n"
        f"nr_class {n_classes_word(model, 2)}\ntotal_sv {len(model.w)}\n"
        f"rho {0.0 - model.intercept!r}\nlabel {labels}\n{sigmoid}nr_sv {len(model.w) - n_second} {n_second}\nSV\n"
    ).encode()


def _without_zeros(vectors: SupportVectors) -> SupportVectors:
    non_zero = vectors.values != 0
    before = np.concatenate([[0], np.cumsum(non_zero)])
    indices, values = vectors.indices[non_zero], vectors.values[non_zero]
    return replace(vectors, indptr=before[vectors.indptr], indices=indices, values=values)


def _parts(head: bytes, vectors: SupportVectors, beta: Array, index_base: int) -> Iterator[bytes]:
    yield head
    padded = _bounds(vectors, index_base)
    # Vectors of LIBSVM's first label come first. The order is stable: reading and writing a file again keeps it.
    for s in np.argsort(beta <= 0, kind="stable"):
        place = slice(vectors.indptr[s], vectors.indptr[s + 1])
        indices, values = vectors.indices[place], vectors.values[place]
        if padded:
            missing = [feature for feature in padded if feature not in indices]
            indices, values = np.append(indices, missing).astype(INDEX), np.append(values, [0.0] * len(missing))
            order = np.argsort(indices)
            indices, values, padded = indices[order], values[order].astype(VALUE), []
        yield numbers(beta[s : s + 1])
        for begin in range(0, len(indices), WEIGHTS_A_PIECE):
            yield _pairs(indices[begin : begin + WEIGHTS_A_PIECE], values[begin : begin + WEIGHTS_A_PIECE])
        yield b"\n"


def _bounds(vectors: SupportVectors, index_base: int) -> list[int]:
    """Return the last feature, and feature 0 if index_base is 0, each only if no vector has a value there."""
    last = vectors.width - 1
    bounds = [0] if index_base == 0 <= last and 0 not in vectors.indices else []
    return [*bounds, last] if last >= max(index_base, 1) and last not in vectors.indices else bounds


def _pairs(indices: Array, values: Array) -> bytes:
    both = zip(numbers(indices).split(b","), numbers(values).split(b","), strict=True)
    return b"".join(b" %b:%b" % pair for pair in both)


def _batched(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts into pieces of about PIECE_BYTES."""
    batch: list[bytes] = []
    size = 0
    for part in parts:
        if batch and size + len(part) > PIECE_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(part)
        size += len(part)
    yield b"".join(batch)


def read(file: BinaryIO) -> Model:
    """Read a text of this program or of `svm-train`; `about` of the model has the loss.

    Raises ModelFormatError unless it is a whole kernel machine of two classes, with a Gaussian kernel. A line feed must
    follow the last vector, so that a file cut inside that vector is refused.
    """
    header = read_header(file, "LIBSVM", HEADER, "SV")
    kind = one_word(header.get("svm_type", []))
    if kind not in ("c_svc", "nu_svc") or header.get("kernel_type") != ["rbf"]:
        raise ModelFormatError("not a model of classes with a Gaussian kernel", "svm-train makes one with -s 0 -t 2")
    if missing := [name for name in NEEDED if name not in header]:
        raise ModelFormatError(f"the header has no {missing[0]}")
    labels = tuple(float(integer(word)) for word in header["label"])
    if header["nr_class"] not in (["2"], ["02"]) or len(labels) != 2:
        raise ModelFormatError(
            "LIBSVM decides more than two classes in pairs", "train here, each class against the rest"
        )
    count = integer(one_word(header["total_sv"]))
    if sum(map(integer, header["nr_sv"])) != count or len(header["nr_sv"]) != 2:
        raise ModelFormatError("the support vectors of the two classes do not add up to all")
    gamma, rho = (floats([one_word(header[name]).encode()])[0] for name in ("gamma", "rho"))
    beta, vectors = _read_vectors(file, count, gamma)
    about: dict[str, Any] = {"loss": "hinge", "svm_type": kind}
    if has_input(header["nr_class"][0]):
        about["input"] = read_input(file.readline())
    if file.readline():
        raise ModelFormatError(f"the file has not the {count} support vectors that its header says")
    base = 0 if 0 in vectors.indices else 1
    bias, w_bias = (None, 0.0) if rho == 0 else (1.0, -rho)
    model = Model(beta, labels, base, bias, w_bias, about, _sigmoid(header), vectors)
    checked(model)
    return replace(model, vectors=_without_zeros(vectors))


def _sigmoid(header: dict[str, list[str]]) -> tuple[tuple[float, float]] | None:
    names = [name for name in SIGMOID if name in header]
    if not names:
        return None
    if len(names) < len(SIGMOID):
        raise ModelFormatError("probA or probB is missing")
    A, B = floats([one_word(header[name]).encode() for name in SIGMOID])
    return ((A, B),)


def _read_vectors(file: BinaryIO, count: int, gamma: float) -> tuple[Array, SupportVectors]:
    """Read `count` lines, each with the factor beta of a support vector and the vector's values; return both."""
    beta: list[float] = []
    lengths, features, values = [0], [np.empty(0, INDEX)], [np.empty(0, VALUE)]
    for line in islice(iter(file.readline, b""), count):
        factor, *pairs = line.split() or [b""]
        if not line.endswith(b"\n"):
            raise ModelFormatError("the file ends inside a support vector")
        beta += floats([factor])
        indices_, words = zip(*map(_pair, pairs), strict=True) if pairs else ((), ())
        features.append(np.array(indices_, np.int64).clip(-1, 2**31 - 1).astype(INDEX))
        with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite, and `checked` refuses it
            values.append(np.array(floats(list(words)), np.float64).astype(VALUE))
        lengths.append(len(pairs))
    if len(beta) < count:
        raise ModelFormatError(f"the file ends inside its support vectors: {len(beta)} of {count} are whole")
    indices, indptr = np.concatenate(features), np.cumsum(lengths, dtype=INDPTR)
    width = max(1, int(indices.max(initial=0)) + 1)
    return np.array(beta), SupportVectors(gamma, width, indptr, indices, np.concatenate(values))


def _pair(word: bytes) -> tuple[int, bytes]:
    feature, colon, value = word.partition(b":")
    if not colon or not feature.isdigit() or len(feature) > 10:
        raise ModelFormatError("a support vector is not made of feature:value")
    return int(feature), value
