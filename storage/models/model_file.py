"""A trained model on disk: a directory with model.json, w.npy and perhaps more files, which never change."""

import io
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.maps import LISTED, FeatureMaps
from streamsvm.storage.features.maps import packed as packed_maps
from streamsvm.storage.features.maps import unpacked as unpacked_maps
from streamsvm.storage.features.rows import FeaturesError
from streamsvm.storage.files.arrays import load_arrays, read_array, read_header
from streamsvm.storage.files.durable import pack, publish, unpack
from streamsvm.storage.models.probability import LOGISTIC, Sigmoid, has_log_odds
from streamsvm.storage.models.support_vectors import SupportVectors, packed, unpacked
from streamsvm.storage.rows.csr import Array

# Format 2 added several classes, labels that are texts, and sigmoids; 3 support vectors; 4 feature maps. A model is
# written in the oldest format that can express it.
VERSION, _VECTORS_VERSION, _SEVERAL, OLDER = 4, 3, 2, 1
_RECORD, WEIGHTS, VECTORS, _MAPS, _MEAN = "model.json", "w.npy", "vectors.npz", "maps.npz", "mean.npy"
_CHUNK = 1 << 20  # weights written at a time
TRAIN_AGAIN = "The model was damaged on disk: train it again."
# Key of `Model.about`. False: the model was trained on a matrix, whose columns have positions but no feature numbers.
NUMBERED = "numbered"


Label = float | str


@dataclass(frozen=True)
class Model:
    """A linear model: the decision value of a row x is <w, x> + bias * w_bias; in regression it is the prediction.

    A kernel machine is linear in its kernel values: <w, (k(z_1, x), ..., k(z_n, x))> + bias * w_bias.

    w           (n_features,) float64; for three classes or more (n_classes, n_features), one decision value per class.
                w[..., 0] is the weight of the feature numbered `index_base` in the input
    labels      (positive, negative): a decision value > 0 predicts `positive`. For more classes, in the order of w's
                rows: the largest decision value predicts its class, of equal values the first. () in regression
    bias        value of the constant feature; None: the model has none. w_bias: the feature's weight, or one per class
    vectors     z_s of a kernel machine, with the input's feature numbers; w[..., s] multiplies k(z_s, x)
    sigmoid     (A, B) for each decision value, see storage.models.probability; None: no sigmoid was fitted
    about       facts about the training: solver, C, loss, dataset, job, certificate ...
    maps        feature maps to apply to x first; w (..., width) has a weight for each feature of mapped rows
    mean        mean of the training rows as w multiplies them, by weight, (n_features,) or (width,); None: not known
    """

    w: Array
    labels: tuple[Label, ...]
    index_base: int
    bias: float | None = None
    w_bias: float | tuple[float, ...] = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)
    sigmoid: Sigmoid | None = None
    vectors: SupportVectors | None = None
    maps: FeatureMaps | None = None
    mean: Array | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the model predicts numbers, not labels."""
        return not self.labels

    @property
    def is_multiclass(self) -> bool:
        """Whether each class has its own decision value: there are three classes or more."""
        return self.w.ndim == 2

    @property
    def is_crammer_singer(self) -> bool:
        """Whether three or more classes were trained as one problem (Crammer, Singer), not one against the rest."""
        return self.is_multiclass and self._multiclass == "crammer_singer"

    @property
    def is_mirrored(self) -> bool:
        """Whether two classes were trained as one problem (Crammer, Singer): the second class has the weights -w."""
        return not self.is_multiclass and len(self.labels) == 2 and self._multiclass == "crammer_singer"

    @property
    def _multiclass(self) -> Any:
        return self.about.get("multiclass") or self.about.get("spec", {}).get("multiclass")

    @property
    def n_features(self) -> int:
        """Number of features of the input's rows that the model takes, without the constant feature."""
        if self.maps is not None:
            return self.maps.shape.width - self.index_base
        return self.w.shape[-1] if self.vectors is None else self.vectors.width - self.index_base

    @property
    def intercept(self) -> Any:
        """The term that the constant feature adds to each decision value: a float, or (n_classes,) float64."""
        product = np.multiply(self.w_bias, 0.0 if self.bias is None else self.bias)
        return np.broadcast_to(product, len(self.w)) if self.is_multiclass else float(product)

    @property
    def probability(self) -> Sigmoid | None:
        """The sigmoids from decision values to probabilities, fitted or those of logistic loss; None: no sigmoids."""
        if _probability(self.sigmoid, self.labels, self.about) == "logistic":
            return (LOGISTIC,) * len(np.atleast_2d(self.w))
        return self.sigmoid

    @property
    def is_plain(self) -> bool:
        """Whether format 1 can express the model: linear, at most two labels, which are numbers, and no sigmoid."""
        is_linear = not self.is_multiclass and self.vectors is None and self.maps is None
        return is_linear and self.sigmoid is None and not any(isinstance(x, str) for x in self.labels)


def write_model(final: Path, model: Model) -> None:
    """Write the model as the directory `final`, which must not exist, durably; it is complete or absent."""
    staged = final.with_name(f".{final.name}.staged")
    # A process that was killed while writing may have left it.
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    try:
        checksum = _write_array(staged / WEIGHTS, model.w)
        content = {
            "labels": model.labels,
            "index_base": model.index_base,
            "bias": model.bias,
            "w_bias": model.w_bias,
            "about": dict(model.about),
            "w_checksum": checksum,
        }
        if not model.is_plain:
            content["sigmoid"] = model.sigmoid
        if model.vectors is not None:
            archive = packed(model.vectors)
            (staged / VECTORS).write_bytes(archive)
            content["vectors_checksum"] = zlib.crc32(archive)
        if model.mean is not None:
            content["mean_checksum"] = _write_array(staged / _MEAN, model.mean)
        if model.maps is not None:
            archive = packed_maps(model.maps)
            (staged / _MAPS).write_bytes(archive)
            content["maps"], content["maps_checksum"] = model.maps.document, zlib.crc32(archive)
        (staged / _RECORD).write_bytes(pack(content, _version(model)))
        publish(staged, final)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _version(model: Model) -> int:
    if model.maps is not None:
        return VERSION
    if model.vectors is not None:
        return _VECTORS_VERSION
    return OLDER if model.is_plain else _SEVERAL


def _write_array(path: Path, w: Array) -> int:
    """Write an array in .npy format, in chunks, so that a full disk raises OSError; return the checksum of the file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(w))
    checksum = 0
    with path.open("wb") as file:
        flat = w.reshape(-1)
        chunks = (flat[start : start + _CHUNK].data for start in range(0, len(flat), _CHUNK))
        for chunk in chain([header.getbuffer()], chunks):
            file.write(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def read_about(directory: Path) -> Mapping[str, Any]:
    """Read `Model.about` from a model's directory. Raises CorruptData or UnknownVersion."""
    return read_record(directory)["about"]


def read_record(directory: Path) -> dict[str, Any]:
    """Read the content of model.json: all of a model but its arrays. Raises CorruptData or UnknownVersion."""
    try:
        return unpack((directory / _RECORD).read_bytes(), VERSION, "model", TRAIN_AGAIN, OLDER)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptData("a file of the model is missing", TRAIN_AGAIN) from error


def read_model(directory: Path) -> Model:
    """Read a model from its directory, and check all checksums. Raises CorruptData or UnknownVersion."""
    content = read_record(directory)
    weights = _read_file(directory / WEIGHTS, content["w_checksum"])
    has_vectors = "vectors_checksum" in content
    mean = _read_file(directory / _MEAN, content["mean_checksum"]) if "mean_checksum" in content else None
    return Model(
        w=read_array(io.BytesIO(weights)),
        labels=tuple(content["labels"]),
        index_base=content["index_base"],
        bias=content["bias"],
        w_bias=tuples(content["w_bias"]),
        about=content["about"],
        sigmoid=tuples(content.get("sigmoid")),
        vectors=unpacked(_read_file(directory / VECTORS, content["vectors_checksum"])) if has_vectors else None,
        maps=_read_maps(directory, content),
        mean=None if mean is None else read_array(io.BytesIO(mean)),
    )


def _read_maps(directory: Path, content: Mapping[str, Any]) -> FeatureMaps | None:
    if "maps" not in content:
        return None
    try:
        return unpacked_maps(content["maps"], _read_file(directory / _MAPS, content["maps_checksum"]))
    except (FeaturesError, KeyError, TypeError, ValueError) as error:
        raise CorruptData("the feature maps of the model are damaged", TRAIN_AGAIN) from error


def _read_file(path: Path, checksum: int) -> bytes:
    """Read a whole file, and compare its checksum before its bytes are parsed. Raises CorruptData."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptData("a file of the model is missing", TRAIN_AGAIN) from error
    if zlib.crc32(data) != checksum:
        raise CorruptData(f"{path.name} of the model has a wrong checksum", TRAIN_AGAIN)
    return data


def tuples(value: Any) -> Any:
    """Turn lists, also nested lists, as JSON and numpy return them, into the tuples that a `Model` has."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class ModelHead:
    """A model without its arrays. Fields that are not listed here have the meaning that they have in `Model`.

    n_features   number of features of the rows that the model takes, numbered from `index_base` on
    probability  "sigmoid" or "logistic": how decision values become probabilities; None: the model gives none
    maps         name and options of each feature map that the job asked for
    is_listed    whether the model has weights only of features that it lists, because features are far apart
    gamma, n_vectors  gamma of the kernel and number of support vectors of a kernel machine; None for a linear model
    """

    labels: tuple[Label, ...]
    index_base: int
    bias: float | None
    about: Mapping[str, Any]
    n_features: int
    probability: str | None
    maps: tuple[dict[str, Any], ...]
    is_listed: bool = False
    gamma: float | None = None
    n_vectors: int | None = None


def head_of(model: Model) -> ModelHead:
    """Return the head of a model in memory."""
    return ModelHead(
        labels=model.labels,
        index_base=model.index_base,
        bias=model.bias,
        about=model.about,
        n_features=model.n_features,
        probability=_probability(model.sigmoid, model.labels, model.about),
        maps=() if model.maps is None else _asked_for(model.maps.document),
        is_listed=model.maps is not None and model.maps.listed is not None,
        gamma=None if model.vectors is None else model.vectors.gamma,
        n_vectors=None if model.vectors is None else len(model.vectors),
    )


def read_head(directory: Path) -> ModelHead:
    """Read the head of a model from its directory. Raises CorruptData or UnknownVersion."""
    content = read_record(directory)
    labels, about = tuple(content["labels"]), content["about"]
    machine: dict[str, Any] = {}
    try:
        with (directory / WEIGHTS).open("rb") as file:
            width = read_header(file)[0][-1]
        if "vectors_checksum" in content:
            arrays = load_arrays(directory / VECTORS, "gamma", "width")
            machine = {"gamma": float(arrays["gamma"]), "n_vectors": width}
            width = int(arrays["width"]) - content["index_base"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptData("a file of the model is missing", TRAIN_AGAIN) from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CorruptData("a file of the model is damaged", TRAIN_AGAIN) from error
    if "maps" in content:
        width = content["maps"]["width"] - content["index_base"]
    return ModelHead(
        labels=labels,
        index_base=content["index_base"],
        bias=content["bias"],
        about=about,
        n_features=width,
        probability=_probability(content.get("sigmoid"), labels, about),
        maps=_asked_for(content["maps"]) if "maps" in content else (),
        is_listed="maps" in content and any(each["name"] == LISTED for each in content["maps"]["maps"]),
        **machine,
    )


def _probability(sigmoid: Any, labels: tuple[Label, ...], about: Mapping[str, Any]) -> str | None:
    if sigmoid is not None:
        return "sigmoid"
    return "logistic" if labels and has_log_odds(about.get("loss")) else None


def _asked_for(maps: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the maps that the job asked for: all of the document's but a `Listed` map."""
    return tuple(each for each in maps["maps"] if each["name"] != LISTED)
