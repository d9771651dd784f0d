"""What files of models are called. Apart from the formats themselves, which are slow to import."""

import os
from collections.abc import Collection
from pathlib import Path, PurePath

# format -> how the names of its files end. LIBLINEAR and LIBSVM both call their texts so.
SUFFIXES = {"liblinear": ".model", "libsvm": ".model", "npz": ".npz", "json": ".json", "onnx": ".onnx"}
_CARRYING = ("npz", "json")  # feature maps
TEXTS = ("liblinear", "libsvm")
_LIBSVM = b"svm_type"


def format_of(path: str | os.PathLike[str], has_kernel: bool = False) -> str:
    """The format in which a model goes into a file of this name, by its ending.

    If it is none of theirs, the text of LIBLINEAR, or that of LIBSVM for a kernel machine.
    """
    ending = PurePath(path).suffix.lower()
    text = TEXTS[has_kernel]
    return next((name for name, suffix in SUFFIXES.items() if suffix == ending != SUFFIXES[text]), text)


def stored_format(path: str | os.PathLike[str]) -> str:
    """The format of a file that there is, by its ending; a text's by how it begins."""
    found = format_of(path)
    if found != "liblinear":
        return found
    with Path(path).open("rb") as file:
        return "libsvm" if file.read(len(_LIBSVM)) == _LIBSVM else found


def formats_for(labels: Collection[float | str], has_kernel: bool, has_maps: bool = False) -> list[str]:
    """Those that can say a model of these labels: the texts have no room for strings, LIBSVM's none for several.

    has_maps  it carries feature maps that cannot be folded into its weights
    """
    if has_maps:
        return list(_CARRYING)
    several, strings = len(set(labels)) > 2, any(isinstance(label, str) for label in labels)
    text = None if strings or (has_kernel and several) else TEXTS[has_kernel]
    return [name for name in SUFFIXES if name not in TEXTS or name == text]
