"""What files of models are called. Apart from the formats themselves, which are slow to import."""

import os
from collections.abc import Collection
from pathlib import Path, PurePath

from streamsvm.service.errors import ServiceError

# format -> how the names of its files end. LIBLINEAR and LIBSVM both call their texts so.
SUFFIXES = {"liblinear": ".model", "libsvm": ".model", "npz": ".npz", "json": ".json", "onnx": ".onnx"}
_CARRYING = ("npz", "json")  # feature maps
FOLDED = ("scale", "bias")  # maps that become part of the weights where a format has no place for maps
TEXTS = ("liblinear", "libsvm")
_PROGRAMS = {"liblinear": "LIBLINEAR", "libsvm": "LIBSVM"}
_ENDINGS_OF_TEXTS = ("", SUFFIXES["liblinear"], ".txt")
_LIBSVM = b"svm_type"
MOST_ONNX_WEIGHTS = (1 << 27) + 1


def format_of(path: str | os.PathLike[str], has_kernel: bool = False) -> str:
    """The format in which a model goes into a file of this name, by its ending.

    If it is none of theirs, the text of LIBLINEAR, or that of LIBSVM for a kernel machine.
    """
    ending = PurePath(path).suffix.lower()
    text = TEXTS[has_kernel]
    return next((name for name, suffix in SUFFIXES.items() if suffix == ending != SUFFIXES[text]), text)


def check_ending(path: str | os.PathLike[str]) -> None:
    """ServiceError unknown_format for the name of a file to be written that ends as those of no format."""
    ending = PurePath(path).suffix.lower()
    if ending not in (*_ENDINGS_OF_TEXTS, *SUFFIXES.values()):
        known = ", ".join(sorted(set(SUFFIXES.values())))
        raise ServiceError("unknown_format", f"no format of models ends in {ending}", f"Endings are {known}.")


def stored_format(path: str | os.PathLike[str]) -> str:
    """The format of a file that there is, by its ending; a text's by how it begins."""
    found = format_of(path)
    if found != "liblinear":
        return found
    with Path(path).open("rb") as file:
        return "libsvm" if file.read(len(_LIBSVM)) == _LIBSVM else found


def is_c_int(label: float) -> bool:
    """Whether the texts have room for it."""
    return float(label).is_integer() and -(2**31) <= label < 2**31


def formats_for(
    labels: Collection[float | str], has_kernel: bool, maps: Collection[str] = (), bias: float | None = None
) -> list[str]:
    """The formats that can hold a model, see `refusal`."""
    return [name for name in SUFFIXES if refusal(name, labels, has_kernel, maps, bias) is None]


def refusal(
    name: str,
    labels: Collection[float | str],
    has_kernel: bool,
    maps: Collection[str] = (),
    bias: float | None = None,
    n_weights: int = 0,
) -> str | None:
    """Why the format cannot say a model, asked before there is one; None if it can.

    labels  its own, none in regression
    maps    names of the feature maps it carries
    bias    value of its constant feature
    """
    if name not in _CARRYING and not set(maps) <= set(FOLDED):
        return f"the model carries feature maps ({', '.join(maps)}), for which this format has no place"
    if name == "onnx" and n_weights > MOST_ONNX_WEIGHTS:
        return f"an ONNX file holds at most {MOST_ONNX_WEIGHTS} weights, the model has {n_weights}"
    return _refusal_of_text(_PROGRAMS[name], labels, has_kernel, bias) if name in TEXTS else None


def _refusal_of_text(program: str, labels: Collection[float | str], has_kernel: bool, bias: float | None) -> str | None:
    if has_kernel != (program == "LIBSVM"):
        return f"{program}'s text is of {'linear models' if has_kernel else 'kernel machines'}"
    if any(isinstance(label, str) for label in labels):
        return f"labels of the data are strings, for which {program}'s text has no place"
    if has_kernel and len(set(labels)) > 2:
        return f"labels of the data are more than two, for which {program}'s text has no place"
    if strange := [label for label in labels if not is_c_int(float(label))]:
        return f"{program}'s labels are 32-bit integers, {strange[0]!r} is not"
    if not has_kernel and bias is not None and bias < 0:
        return f"LIBLINEAR takes the bias {bias!r} for none"
    return None
