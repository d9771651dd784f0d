"""Parts that several formats share: the check of a model, weights in pieces, feature maps, JSON, and the texts' parts.

LIBLINEAR and LIBSVM stop reading after the last weight or vector. A line follows there if the model has an `input`,
which says how rows become features and names the columns. It has the word `input`, the CRC of the rest, and a JSON
object. The number of classes announces it by a leading zero, `nr_class 02`, which C reads as the same number.
"""

import json
import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, NoReturn

import numpy as np
import orjson

from streamsvm.service.errors import ModelFormatError
from streamsvm.service.models.formats import formats_for, refusal
from streamsvm.storage.features.maps import FeatureMaps, listed_maps
from streamsvm.storage.features.rows import FeaturesError
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

WEIGHTS_A_PIECE = 1 << 15  # as text less than 1 MiB
MOST_FEATURES = 2**31 - 1  # their numbers are C ints
HEADER_BYTES = 1 << 20  # of a line of the header: there may be many labels
PIECE_BYTES = 1 << 19
_INPUT = b"input "


def pieces(w: Array) -> Iterator[Array]:
    """Cut weights (n,) or (n_classes, n), class by class, into array views of at most WEIGHTS_A_PIECE numbers."""
    flat = w.reshape(-1)
    for begin in range(0, len(flat), WEIGHTS_A_PIECE):
        yield flat[begin : begin + WEIGHTS_A_PIECE]


def numbers(piece: Array) -> bytes:
    """Write finite numbers as text with commas between; each reads back as the same number of its type."""
    return orjson.dumps(np.ascontiguousarray(piece), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def checked(model: Model) -> Model:
    """Return the model; raise ModelFormatError if no training can have made it."""
    if model.w.ndim not in (1, 2) or model.w.dtype != np.float64:
        raise ModelFormatError(f"the weights are {model.w.ndim}-dimensional {model.w.dtype}, not float64 vectors")
    _check_labels(model)
    _check_sizes(model)
    if model.vectors is not None:
        _check_vectors(model.vectors, model.w.shape[-1], model.index_base)
    if model.maps is not None and model.w.shape[-1] != model.maps.width:
        raise ModelFormatError("the number of weights is not the number of features that the maps make")
    if not all(np.isfinite(piece).all() for piece in pieces(model.w)) or not np.isfinite(model.intercept).all():
        raise ModelFormatError("a weight is not finite", "train the model again, with scaled features or a smaller C")
    if model.mean is not None and (model.mean.shape != model.w.shape[-1:] or not np.isfinite(model.mean).all()):
        raise ModelFormatError("the mean has not a finite number for each weight")
    if not np.isfinite(model.sigmoid or ()).all():
        raise ModelFormatError("a sigmoid is not finite")
    if model.index_base not in (0, 1):
        raise ModelFormatError(f"index_base is 0 or 1, not {model.index_base}")
    return model


def check_holds(name: str, model: Model) -> None:
    """Raise ModelFormatError if the format `name` cannot hold the model; the error's hint names formats that can."""
    about = model.labels, model.vectors is not None, (), model.bias
    if (why := refusal(name, *about)) is not None:
        raise ModelFormatError(why, f"take the model as {' or '.join(formats_for(*about))}")


def _check_labels(model: Model) -> None:
    """Check that labels are all numbers or all texts, that no two are equal, and that there is one for each class."""
    labels = model.labels
    are_texts = all(isinstance(label, str) for label in labels)
    if not are_texts and not all(isinstance(label, int | float) and math.isfinite(label) for label in labels):
        raise ModelFormatError("the labels are neither finite numbers nor texts")
    if len(set(labels)) != len(labels):
        raise ModelFormatError("two labels are the same")
    if model.is_multiclass and (len(labels) < 3 or len(labels) != len(model.w)):
        raise ModelFormatError(f"there are {len(labels)} labels for {len(model.w)} classes")
    if not model.is_multiclass and len(labels) not in (0, 2):
        raise ModelFormatError(f"there are {len(labels)} labels, not two, or none as in regression")


def _check_sizes(model: Model) -> None:
    """Check that each decision value has a sigmoid, if the model has any, and a bias weight."""
    n_values = len(model.w) if model.is_multiclass else 1
    if model.sigmoid is not None and (not model.labels or np.shape(model.sigmoid) != (n_values, 2)):
        raise ModelFormatError(f"there is not one sigmoid of two numbers for each of {n_values} decision values")
    shape = (n_values,) if model.is_multiclass and model.bias is not None else ()
    if np.shape(model.w_bias) != shape:
        raise ModelFormatError("the number of weights of the bias is not the number of decision values")


def _check_vectors(vectors: SupportVectors, count: int, index_base: int) -> None:
    """Check that there is a vector for each weight, with ascending features in range and finite values."""
    indptr, indices, values = vectors.indptr, vectors.indices, vectors.values
    if (indptr.dtype, indices.dtype, values.dtype) != (INDPTR, INDEX, VALUE) or len(indptr) != count + 1:
        raise ModelFormatError("the number of support vectors is not the number of weights, or their type is wrong")
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or not len(indices) == len(values) == indptr[-1]:
        raise ModelFormatError("indptr does not divide the values into support vectors")
    if not index_base <= vectors.width <= MOST_FEATURES or ((indices < index_base) | (indices >= vectors.width)).any():
        raise ModelFormatError("a support vector has a feature that is out of range")
    begins = np.zeros(len(indices), bool)
    begins[indptr[:-1][np.diff(indptr) > 0]] = True
    if not (begins[1:] | (np.diff(indices) > 0)).all():
        raise ModelFormatError("the features of a support vector do not ascend")
    if not np.isfinite(values).all() or not 0.0 <= vectors.gamma < math.inf:
        raise ModelFormatError("a value of a support vector is not finite, or gamma is negative or not finite")


def read_maps(document: Any, arrays: Mapping[str, Array]) -> FeatureMaps:
    """Read the feature maps of a model file. Raises ModelFormatError if a map is unknown or incomplete."""
    try:
        return FeatureMaps.read(document, arrays)
    except (FeaturesError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFormatError("a feature map of the model is unknown or incomplete") from error


def folded(model: Model, program: str) -> Model:
    """Fold feature maps into the weights, which then apply to rows as in the input. Raises ModelFormatError.

    A constant that the maps make goes into the weight of the bias. A list of features stays, without numbers below
    index_base; `columns_of` gives their columns.
    """
    if model.maps is None:
        return model
    w, constant = model.w, np.zeros(model.w.shape[:-1])
    listed = model.maps.listed
    for each in reversed(model.maps.maps[listed is not None :]):
        folded_map = each.map.folded(w, each.arrays)
        if folded_map is None:
            raise ModelFormatError(
                f"{program} has no feature map {each.name}, and it cannot be folded into the weights",
                "take the model as npz, and predict with streamsvm predict or the service",
            )
        w, constant = folded_map[0], constant + folded_map[1]
    bias, w_bias = model.bias, np.asarray(model.w_bias)
    if np.any(constant):
        bias = model.bias or 1.0
        w_bias = (np.asarray(model.intercept) + constant) / bias
    factors = tuple(w_bias.tolist()) if np.ndim(w_bias) else float(w_bias)
    if listed is None:
        return replace(model, w=np.ascontiguousarray(w[..., model.index_base :]), bias=bias, w_bias=factors, maps=None)
    first = int(np.searchsorted(listed, model.index_base))
    maps = listed_maps(model.n_features, model.index_base, listed[first:])
    return replace(model, w=np.ascontiguousarray(w[..., first:]), bias=bias, w_bias=factors, maps=maps)


def columns_of(model: Model) -> Array | None:
    """Return the columns (k,) int64, from 0, of the features that a folded model has weights for; None: all columns."""
    listed = None if model.maps is None else model.maps.listed
    return None if listed is None else listed.astype(np.int64) - model.index_base


def plain(value: Any) -> Any:
    """Convert a value to what JSON can hold; a number that is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object. Raises ModelFormatError if the text is no JSON object."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # never quote the error: it repeats the input
        raise ModelFormatError("this is not JSON, or not all of it") from None
    if not isinstance(document, dict):
        raise ModelFormatError("this is not a JSON object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def n_classes_word(model: Model, n_classes: int) -> str:
    """Write the number of classes, with a leading zero if the model has an `input`."""
    return f"{'0' if model.about.get('input') else ''}{n_classes}"


def has_input(word: str) -> bool:
    """Whether the number of classes announces an `input` line."""
    return word.startswith("0")


def input_line(model: Model) -> Iterator[bytes]:
    """Yield the last line of a text, with the model's `input`, in pieces; nothing if the model has no `input`."""
    if input_ := model.about.get("input"):
        document = json.dumps(input_, separators=(",", ":")).encode()
        line = b"%b%08x %b\n" % (_INPUT, zlib.crc32(document), document)
        yield from (line[begin : begin + PIECE_BYTES] for begin in range(0, len(line), PIECE_BYTES))


def read_input(line: bytes) -> dict[str, Any]:
    """Read the `input` in a line. Raises ModelFormatError if the line is damaged, cut, or of another kind."""
    document = line[len(_INPUT) + 9 : -1]
    if line != b"%b%08x %b\n" % (_INPUT, zlib.crc32(document), document):
        raise ModelFormatError("the last line, which says how rows become features, is damaged or cut")
    try:
        input_ = json.loads(document)
    except (ValueError, RecursionError):
        input_ = None
    if not isinstance(input_, dict):
        raise ModelFormatError("the last line, which says how rows become features, is no JSON object")
    return input_


def last_line(file: BinaryIO, begin: int) -> int:
    """Return the offset where the last line of a file begins; `begin` if no line begins after that offset."""
    place = file.seek(0, 2) - 1  # a line feed at the very end begins no line
    while place > begin:
        start = max(begin, place - PIECE_BYTES)
        file.seek(start)
        line_feed = file.read(place - start).rfind(b"\n")
        if line_feed >= 0:
            return start + line_feed + 1
        place = start
    return begin


def read_header(file: BinaryIO, program: str, names: Collection[str], end: str) -> dict[str, list[str]]:
    """Read the header: name -> the words after it; leaves the file after the line `end`.

    Raises ModelFormatError for a name that is not in `names`, or if the file ends before the line `end`.
    """
    header: dict[str, list[str]] = {}
    while line := file.readline(HEADER_BYTES):
        name, *words = line.decode("ascii", "replace").split() or [""]
        if name == end and not words and line.endswith(b"\n"):
            return header
        if name and name not in names:
            raise ModelFormatError(f"this is not the text of a {program} model")
        header[name] = words
    raise ModelFormatError("the file ends inside the header")


def one_word(words: list[str]) -> str:
    """Return the only word of a line. Raises ModelFormatError for no word, or several."""
    if len(words) != 1:
        raise ModelFormatError("a line of the header is not a name and a value")
    return words[0]


def integer(word: str) -> int:
    """Read an integer of a header. Raises ModelFormatError."""
    if not word.removeprefix("-").isdecimal() or len(word) > 11:
        raise ModelFormatError("a number of the header is not an integer")
    return int(word)


def floats(words: list[bytes]) -> list[float]:
    """Read numbers as C does. Raises ModelFormatError."""
    try:
        if any(b"_" in word for word in words):  # Python reads 1_0 as 10, C does not
            raise ValueError
        return list(map(float, words))
    except ValueError:
        raise ModelFormatError("a weight or the bias is not a number") from None
