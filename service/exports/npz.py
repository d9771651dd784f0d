"""A model as a numpy archive, without pickle. To predict a dense matrix X with plain numpy:

    model = np.load("a.npz")
    decision = X @ model["w"] + model["intercept"]
    label = np.where(decision > 0, *model["labels"])

w           (n_features,) float64; w[0] belongs to the feature numbered index_base in the input
labels      (2,) float64: that of positive decision values, then the other; (0,) in regression
intercept   () float64, bias * w_bias; bias is nan for a model without
index_base  () int64
about       () text, a JSON object: where the model comes from
"""

import io
import json
import math
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from service.exports.errors import ModelFormatError, check_intercept, checked, pieces
from service.exports.json_text import parse_object, plain
from storage.csr import Array
from storage.model_file import Model

READ_BYTES = 1 << 20
# Of each array the kind of numbers and the shape, None where any length will do.
LAYOUT: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "w": ("<f8", (None,)),
    "labels": ("<f8", (None,)),
    "intercept": ("<f8", ()),
    "bias": ("<f8", ()),
    "w_bias": ("<f8", ()),
    "index_base": ("<i8", ()),
    "about": ("<U", ()),
}


class _Sink(io.RawIOBase):
    """Takes what is written until it is drained; cannot seek, so the archive is made in one go."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def drain(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def write(model: Model) -> Iterator[bytes]:
    """The archive in pieces under 1 MiB, the same bytes for the same model.

    ModelFormatError, before the first piece, if a weight is not finite.
    """
    checked(model)
    return _stream(
        {
            "w": np.asarray(model.w, "<f8"),
            "labels": np.array(model.labels, "<f8"),
            "intercept": np.array(model.intercept, "<f8"),
            "bias": np.array(math.nan if model.bias is None else model.bias, "<f8"),
            "w_bias": np.array(model.w_bias, "<f8"),
            "index_base": np.array(model.index_base, "<i8"),
            "about": np.array(json.dumps(plain(model.about))),
        }
    )


def _stream(arrays: dict[str, Array]) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, array in arrays.items():
            # The name alone gives the member the date 1980-01-01, whatever the clock says.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
                for piece in pieces(array.reshape(-1)):
                    member.write(piece.tobytes())
                    yield sink.drain()
    yield sink.drain()


def read(file: BinaryIO) -> Model:
    """The model of an archive in a file that can seek; ModelFormatError unless it is whole and every array is right."""
    try:
        with zipfile.ZipFile(file) as archive:
            arrays = {name: _read_array(archive, name) for name in LAYOUT}
        about = arrays["about"].item()
    except (ModelFormatError, MemoryError):
        raise
    except Exception as error:  # on damaged bytes zipfile and numpy raise some dozen kinds, down to AttributeError
        raise ModelFormatError("this is not a whole npz archive of a model") from error
    bias = float(arrays["bias"])
    model = Model(
        arrays["w"],
        tuple(arrays["labels"].tolist()),
        int(arrays["index_base"]),
        None if math.isnan(bias) else bias,
        float(arrays["w_bias"]),
        parse_object(about),
    )
    check_intercept(checked(model), float(arrays["intercept"]))
    return model


def _read_array(archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ModelFormatError("the archive is compressed", "write it with numpy.savez, which does not compress")
    with archive.open(info) as member:
        np.lib.format.read_magic(member)
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        _check_layout(name, shape, dtype)
        # The header is not to be believed about memory: the member's size is, within that of the file.
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell() or info.file_size > info.compress_size:
            raise ModelFormatError(f"the array {name} is not as long as it says")
        return _fill(np.empty(shape, dtype), member)


def _check_layout(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    kind, sizes = LAYOUT[name]
    fits = len(shape) == len(sizes) and all(size in (None, n) for n, size in zip(shape, sizes, strict=True))
    if not dtype.str.startswith(kind) or not fits:
        raise ModelFormatError(f"the array {name} is {dtype} of shape {shape}")


def _fill(array: Array, member: Any) -> Array:
    """Reads the array's bytes piece by piece; the archive compares the checksum at the last."""
    rest = array.reshape(-1).view(np.uint8)
    while len(rest):
        taken = member.read(min(len(rest), READ_BYTES))
        if not taken:
            raise ModelFormatError("the archive ends inside an array")
        rest[: len(taken)] = np.frombuffer(taken, np.uint8)
        rest = rest[len(taken) :]
    member.read(1)  # the checksum of an array without elements is compared only here
    return array
