"""Reads and writes tensors of the Open Inference Protocol v2, in JSON or as bytes after the JSON.

{"name": "X", "shape": [2, 3], "datatype": "FP64", "data": [...]}                            nested or flat
{"name": "X", "shape": [2, 3], "datatype": "FP64", "parameters": {"binary_data_size": 48}}   bytes after the JSON

The bytes are Triton's binary extension: little-endian numbers, the tensors in the order of the JSON.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.exports.json_text import plain
from streamsvm.storage.rows.csr import Array

DATATYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(bool),
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
TEXTS = "BYTES"
_JSON_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}  # numpy kind of a datatype -> kinds its JSON data may have
_MOST_DIMENSIONS = 8
_SIZE_LIMIT = 1 << 31


def read_tensors(inputs: Any, binary: memoryview) -> dict[str, Array]:
    """Read the inputs of a request, by name: arrays of finite numbers, bool or str; `binary` follows the JSON.

    Raises ServiceError bad_tensor, not_finite, not_text.
    """
    if not isinstance(inputs, list) or not all(isinstance(tensor, dict) for tensor in inputs):
        raise _bad("inputs is not a list of tensors")
    arrays: dict[str, Array] = {}
    for tensor in inputs:
        name, shape, dtype = _described(tensor)
        size = _parameters(tensor).get("binary_data_size")
        if size is None:
            array = _of_json(tensor.get("data"), dtype)
        else:
            array, binary = _of_bytes(binary, size, dtype)
        if len(array) != math.prod(shape):
            raise _bad(f"an input has {len(array)} values, its shape says {math.prod(shape)}")
        if name in arrays:
            raise _bad("an input is given twice")
        if array.dtype.kind != "O" and not np.isfinite(array).all():
            raise ServiceError("not_finite", "an input has a value that is not finite")
        arrays[name] = array.reshape(shape)
    if len(binary):
        raise _bad("more bytes follow than the inputs say")
    return arrays


def datatype_of(array: Array) -> str:
    """The protocol's datatype of an output: BYTES for texts, FP64 for numbers."""
    return TEXTS if array.dtype.kind == "U" else "FP64"


def write_tensors(arrays: Mapping[str, Array], binary: Iterable[str]) -> tuple[list[dict[str, Any]], bytes]:
    """The outputs of a response, and the bytes that follow the JSON: the outputs named in `binary`."""
    described, parts = [], []
    for name, array in arrays.items():
        output: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if name in binary:
            parts.append(_to_bytes(array))
            output["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            output["data"] = plain(array.reshape(-1).tolist())
        described.append(output)
    return described, b"".join(parts)


def _to_bytes(array: Array) -> bytes:
    """Bytes of an output: float64 numbers in order; or texts, each after its length in four bytes."""
    if datatype_of(array) == "FP64":
        return array.astype(DATATYPES["FP64"]).tobytes()
    texts = [text.encode() for text in array.reshape(-1).tolist()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def wanted_outputs(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, bool]:
    """The outputs, of the model's `names`, that a request asks for -> whether as bytes. ServiceError bad_tensor."""
    by_default = _parameters(document).get("binary_data_output") is True
    outputs = document.get("outputs") or [{"name": name} for name in names]
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise _bad("outputs is not a list of names")
    if not all(output.get("name") in names for output in outputs):
        raise _bad("there is no such output", f"The outputs are {' and '.join(names)}.")
    return {output["name"]: _parameters(output).get("binary_data", by_default) is True for output in outputs}


def _described(tensor: dict[str, Any]) -> tuple[str, list[int], np.dtype]:
    name, shape, datatype = tensor.get("name"), tensor.get("shape"), tensor.get("datatype")
    if not isinstance(name, str):
        raise _bad("an input has no name")
    if not isinstance(datatype, str) or datatype not in (*DATATYPES, TEXTS):
        raise _bad("an input has an unknown datatype", f"Datatypes are {', '.join(DATATYPES)} and {TEXTS}.")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(map(_is_size, shape)):
        raise _bad("an input's shape is not a list of sizes")
    return name, shape, DATATYPES.get(datatype, np.dtype(object))


def _of_json(data: Any, dtype: np.dtype) -> Array:
    if not isinstance(data, list):
        raise _bad("an input has no data")
    if dtype.kind == "O":
        return _texts(data)
    try:
        array = np.array(data).reshape(-1)
    except ValueError:
        raise _bad("an input's data is nested unevenly") from None
    if len(array) and array.dtype.kind not in _JSON_KINDS[dtype.kind]:
        raise _bad("an input's data is not of its datatype")
    if dtype.kind in "iu" and len(array):
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise _bad("an input has a value beyond its datatype")
    with np.errstate(over="ignore"):  # a value beyond the float type becomes infinite, and is refused
        return array.astype(dtype)


def _of_bytes(binary: memoryview, size: Any, dtype: np.dtype) -> tuple[Array, memoryview]:
    """Read one tensor of `size` bytes; returns its values and the remaining bytes."""
    if dtype.kind == "O" and _is_size(size) and size <= len(binary):
        return _lengths_and_texts(binary[:size]), binary[size:]
    if dtype.kind == "O" or not _is_size(size) or size > len(binary) or size % dtype.itemsize:
        raise _bad("an input's binary_data_size does not fit the bytes that follow, or its datatype")
    values = np.frombuffer(binary[:size], np.uint8 if dtype.kind == "b" else dtype)
    return values.astype(dtype, copy=False), binary[size:]


def _texts(data: list[Any]) -> Array:
    """Make (n,) str of a flat list of texts."""
    if not all(isinstance(text, str) for text in data):
        raise _bad("an input's data is not texts, given flat")
    array = np.empty(len(data), object)
    array[:] = data
    return array


def _lengths_and_texts(binary: memoryview) -> Array:
    """Read (n,) str, each after its length in four bytes."""
    texts, place = [], 0
    while place < len(binary):
        begin = place + 4
        place = begin + int.from_bytes(binary[place:begin], "little")
        if begin > len(binary) or place > len(binary):
            raise _bad("the bytes of an input end inside a text")
        try:
            texts.append(str(binary[begin:place], "utf-8"))
        except UnicodeDecodeError:
            raise ServiceError("not_text", "a text of an input is not UTF-8") from None
    return _texts(texts)


def _parameters(tensor: dict[str, Any]) -> dict[str, Any]:
    parameters = tensor.get("parameters", {})
    if not isinstance(parameters, dict):
        raise _bad("parameters is not an object")
    return parameters


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _SIZE_LIMIT


def _bad(message: str, hint: str = "") -> ServiceError:
    return ServiceError("bad_tensor", message, hint)
