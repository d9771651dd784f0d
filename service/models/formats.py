"""Names of model files, and which format can hold a model; the formats' own modules are slow to import."""

import os
from collections.abc import Collection
from pathlib import Path, PurePath

from streamsvm.service.errors import ModelFormatError, ServiceError
from streamsvm.service.obsolete_names import FORMATS

# format -> ending of its files, in the order in which formats are offered. LIBLINEAR and LIBSVM share one.
SUFFIXES = {"liblinear": ".model", "libsvm": ".model", "npz": ".npz", "onnx": ".onnx"}
FOLDED = ("scale", "bias")  # maps that other formats hold as part of the weights
TEXTS = ("liblinear", "libsvm")
_PROGRAMS = {"liblinear": "LIBLINEAR", "libsvm": "LIBSVM"}
_ENDINGS_OF_TEXTS = ("", SUFFIXES["liblinear"], ".txt")
_LIBSVM = b"svm_type"
MOST_ONNX_WEIGHTS = (1 << 27) + 1


def format_of(path: str | os.PathLike[str], has_kernel: bool = False) -> str:
    """Return the format in which to write a model file, by the ending of its name.

    Any other ending means text: LIBSVM's for a kernel machine, else LIBLINEAR's.
    """
    ending = PurePath(path).suffix.lower()
    text = TEXTS[has_kernel]
    return next((name for name, suffix in SUFFIXES.items() if suffix == ending != SUFFIXES[text]), text)


def check_ending(path: str | os.PathLike[str]) -> None:
    """Raise ServiceError unknown_format if no format has the ending of this file name."""
    ending = PurePath(path).suffix.lower()
    if ending not in (*_ENDINGS_OF_TEXTS, *SUFFIXES.values()):
        endings = ", ".join(sorted(set(SUFFIXES.values())))
        told = f"{FORMATS.get(ending[1:], '')} Endings are {endings}.".strip()
        raise ServiceError("unknown_format", f"no format of models ends in {ending}", told)


def stored_format(path: str | os.PathLike[str]) -> str:
    """Return the format of an existing model file: by its ending, or, for a text, by its first bytes.

    Raises ModelFormatError for a model in JSON, which earlier versions wrote.
    """
    format_ = format_of(path)
    if format_ != "liblinear":
        return format_
    with Path(path).open("rb") as file:
        head = file.read(len(_LIBSVM))
    if head.startswith(b"{"):
        raise ModelFormatError("this is a model in JSON, which this version does not read", FORMATS["json"])
    return "libsvm" if head == _LIBSVM else format_


def is_c_int(label: float) -> bool:
    """Whether a label is a 32-bit integer, as the texts of LIBLINEAR and LIBSVM require."""
    return float(label).is_integer() and -(2**31) <= label < 2**31


def usual_format(has_kernel: bool, is_listed: bool) -> str:
    """Return the default format of a download, if it can hold the model: a text, or npz for a list of features.

    A text has a line for every possible feature number, however few of them the model lists.
    """
    return "npz" if is_listed else TEXTS[has_kernel]


def formats_for(
    labels: Collection[float | str],
    has_kernel: bool,
    maps: Collection[str] = (),
    bias: float | None = None,
    is_listed: bool = False,
) -> list[str]:
    """Return the formats that can hold a model (see `refusal`): the usual one, then the others in SUFFIXES' order."""
    formats = [name for name in SUFFIXES if refusal(name, labels, has_kernel, maps, bias) is None]
    return sorted(formats, key=lambda name: name != usual_format(has_kernel, is_listed))


def refusal(
    name: str,
    labels: Collection[float | str],
    has_kernel: bool,
    maps: Collection[str] = (),
    bias: float | None = None,
    n_weights: int = 0,
) -> str | None:
    """Say why the format `name` cannot hold a model, before or after training; return None if it can.

    labels     labels of the model; empty in regression
    maps       names of the model's feature maps
    bias       value of the model's constant feature
    n_weights  number of the model's weights, 0 if it is not known yet
    """
    if name != "npz" and not set(maps) <= set(FOLDED):
        return f"the model has feature maps ({', '.join(maps)}), for which this format has no place"
    if name == "onnx" and n_weights > MOST_ONNX_WEIGHTS:
        return f"an ONNX file holds at most {MOST_ONNX_WEIGHTS} weights, the model has {n_weights}"
    return _refusal_of_text(_PROGRAMS[name], labels, has_kernel, bias) if name in TEXTS else None


def _refusal_of_text(program: str, labels: Collection[float | str], has_kernel: bool, bias: float | None) -> str | None:
    if has_kernel != (program == "LIBSVM"):
        return f"{program}'s text holds {'linear models' if has_kernel else 'kernel machines'} only"
    if any(isinstance(label, str) for label in labels):
        return f"labels of the data are strings, for which {program}'s text has no place"
    if has_kernel and len(set(labels)) > 2:
        return f"the data have more than two labels, for which {program}'s text has no place"
    if others := [label for label in labels if not is_c_int(float(label))]:
        return f"{program}'s labels are 32-bit integers, {others[0]!r} is not"
    if not has_kernel and bias is not None and bias < 0:
        return f"LIBLINEAR reads the negative bias {bias!r} as no bias"
    return None
