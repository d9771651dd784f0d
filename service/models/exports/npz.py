"""The format npz: a numpy archive without pickle. To predict a dense matrix X with plain numpy:

    model = np.load("a.npz")
    decision = X @ model["w"] + model["intercept"]
    label = np.where(decision > 0, *model["labels"])

w           (n_features,) float64; w[0] belongs to the feature numbered index_base in the input
labels      (2,) float64 or text: the label of positive decision values, then the other; (0,) in regression
bias        () float64, the value of the constant feature, nan if there is none
w_bias      () float64, the weight of the constant feature
intercept   () float64, bias * w_bias
index_base  () int64
about       () text, a JSON object: where the model comes from
sigmoid     (1, 2) float64, absent without probabilities: A and B of the probability 1 / (1 + exp(A decision + B))
mean        (n_features,) float64, absent if unknown: mean of the training rows as w multiplies them

With more than two classes the arrays have an entry for each, in the order of the labels: w (n_classes, n_features),
labels, intercept and w_bias (n_classes,), sigmoid (n_classes, 2). The largest decision value is predicted:

    decision = X @ model["w"].T + model["intercept"]
    label = model["labels"][decision.argmax(axis=1)]

A model whose features are far apart has weights for those in `map_0_features` (n,) only, numbered as in the input:

    columns = model["map_0_features"].astype(int) - model["index_base"]
    decision = X[:, columns] @ model["w"].T + model["intercept"]

A model with feature maps has `maps`, a JSON object of their names and options, and the arrays that they were fitted to,
map_PLACE_NAME (n,) float64. w has a weight for each feature that the maps make.

A kernel machine has support vectors, and w, (n_vectors,) or (n_classes, n_vectors), multiplies their kernel values.
With column j of X the feature j + index_base:

    parts = model["values"].astype(float), model["indices"] - model["index_base"], model["indptr"]
    Z = scipy.sparse.csr_matrix(parts, (len(model["indptr"]) - 1, model["n_features"])).toarray()
    squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
    decision = np.exp(-model["gamma"] * squares) @ model["w"].T + model["intercept"]

gamma       () float64
n_features  () int64
indptr      (n_vectors + 1,) int64; vector s has the features indices[indptr[s]:indptr[s + 1]], (nnz,) int32, numbered
            as in the input, and their values at the same positions of values, (nnz,) float32
"""

import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from streamsvm.service.models.exports.parts import ModelFormatError, checked, parse_object, pieces, plain, read_maps
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.files.arrays import fill, read_header
from streamsvm.storage.models.model_file import Model, tuples
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import Array

EXTRA_BYTES = 28  # zip's extra field with the sizes and the offset of a large member
# array -> the types and the numbers of dimensions that it may have.
LAYOUT: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "w": (("<f8",), (1, 2)),
    "labels": (("<f8", "<U"), (1,)),
    "intercept": (("<f8",), (0, 1)),
    "bias": (("<f8",), (0,)),
    "w_bias": (("<f8",), (0, 1)),
    "index_base": (("<i8",), (0,)),
    "about": (("<U",), (0,)),
    "sigmoid": (("<f8",), (2,)),
    "mean": (("<f8",), (1,)),
    "maps": (("<U",), (0,)),
    "gamma": (("<f8",), (0,)),
    "n_features": (("<i8",), (0,)),
    "indptr": (("<i8",), (1,)),
    "indices": (("<i4",), (1,)),
    "values": (("<f4",), (1,)),
}
KERNEL = ("gamma", "n_features", "indptr", "indices", "values")
OPTIONAL = {"sigmoid", "mean", "maps", *KERNEL}
# Names of the arrays of fitted feature maps.
FITTED = re.compile(r"map_\d_[a-z]+")
FITTED_LAYOUT = ("<f8",), (1,)


class _Sink(io.RawIOBase):
    """Collects written bytes until `drain`. It cannot seek, so that zipfile never goes back to change a header."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def drain(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


def write(model: Model) -> Iterator[bytes]:
    """Yield the archive in pieces under 1 MiB, the same bytes for the same model.

    The call raises ModelFormatError if a weight is not finite.
    """
    checked(model)
    return _stream(
        {
            "w": np.ascontiguousarray(model.w, "<f8"),
            "labels": np.array(model.labels, "<U" if isinstance(next(iter(model.labels), None), str) else "<f8"),
            "intercept": np.array(model.intercept, "<f8"),
            "bias": np.array(math.nan if model.bias is None else model.bias, "<f8"),
            "w_bias": np.array(model.w_bias, "<f8"),
            "index_base": np.array(model.index_base, "<i8"),
            "about": np.array(json.dumps(plain(model.about))),
            **({} if model.sigmoid is None else {"sigmoid": np.array(model.sigmoid, "<f8")}),
            **({} if model.mean is None else {"mean": np.ascontiguousarray(model.mean, "<f8")}),
            **({} if model.vectors is None else _arrays_of_vectors(model.vectors, model.n_features)),
            **({} if model.maps is None else _arrays_of_maps(model.maps)),
        }
    )


def _arrays_of_vectors(vectors: SupportVectors, n_features: int) -> dict[str, Array]:
    return {
        "gamma": np.array(vectors.gamma, "<f8"),
        "n_features": np.array(n_features, "<i8"),
        **{name: np.asarray(getattr(vectors, name), LAYOUT[name][0][0]) for name in KERNEL[2:]},
    }


def _arrays_of_maps(maps: FeatureMaps) -> dict[str, Array]:
    fitted = {f"map_{name}": np.asarray(array, "<f8") for name, array in maps.arrays.items()}
    return {"maps": np.array(json.dumps(maps.document)), **fitted}


def _stream(arrays: dict[str, Array]) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, array in arrays.items():
            # A ZipInfo made of a name has the date 1980-01-01, so that the bytes do not depend on the clock.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
                for piece in pieces(array.reshape(-1)):
                    member.write(piece.tobytes())
                    yield sink.drain()
    yield sink.drain()


def read(file: BinaryIO) -> Model:
    """Read the archive of a model. Raises ModelFormatError unless the archive is whole and its arrays agree."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive)
            names = [name for name in LAYOUT if name not in OPTIONAL or f"{name}.npy" in members]
            names += [name.removesuffix(".npy") for name in members if FITTED.match(name)]
            arrays = {name: _read_array(archive, name) for name in names}
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
        tuples(arrays["w_bias"].tolist()),
        parse_object(about),
        tuples(arrays["sigmoid"].tolist()) if "sigmoid" in arrays else None,
        _vectors(arrays),
        _maps(arrays),
        arrays.get("mean"),
    )
    if not np.array_equal(arrays["intercept"], checked(model).intercept):
        raise ModelFormatError("the intercept is not bias times its weight")
    return model


def _members(archive: zipfile.ZipFile) -> set[str]:
    """Return the members' names. Raises ModelFormatError for an unknown name, or damage in the archive's directory.

    Without this check, damage to the name of an optional array would go unnoticed: it would count as absent.
    """
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if not (name in LAYOUT or FITTED.fullmatch(name)) or info.comment or len(info.extra) > EXTRA_BYTES:
            raise ModelFormatError("the archive has an array that no model has")
    return set(archive.namelist())


def _maps(arrays: dict[str, Array]) -> FeatureMaps | None:
    if "maps" not in arrays:
        return None
    fitted = {name.removeprefix("map_"): array for name, array in arrays.items() if FITTED.fullmatch(name)}
    return read_maps(parse_object(arrays["maps"].item()), fitted)


def _vectors(arrays: dict[str, Array]) -> SupportVectors | None:
    names = [name for name in KERNEL if name in arrays]
    if not names:
        return None
    if len(names) < len(KERNEL):
        raise ModelFormatError("the archive has only some of the arrays of support vectors")
    n_features = int(arrays["n_features"])
    return SupportVectors(
        float(arrays["gamma"]), int(arrays["index_base"]) + n_features, *(arrays[name] for name in KERNEL[2:])
    )


def _read_array(archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ModelFormatError("the archive is compressed", "write it with numpy.savez, which does not compress")
    with archive.open(info) as member:
        shape, _, dtype = read_header(member)
        kinds, dimensions = LAYOUT.get(name, FITTED_LAYOUT)
        if not dtype.str.startswith(kinds) or len(shape) not in dimensions:
            raise ModelFormatError(f"the array {name} is {dtype} of shape {shape}")
        # Before memory is taken, the shape in the header must agree with the member's size within the file.
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell() or info.file_size > info.compress_size:
            raise ModelFormatError(f"the array {name} is not as long as it says")
        return fill(np.empty(shape, dtype), member)
