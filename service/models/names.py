"""What files of models are called. Apart from the formats themselves, which are slow to import."""

import os
from pathlib import PurePath

# format -> how the names of its files end
SUFFIXES = {"liblinear": ".model", "npz": ".npz", "json": ".json", "onnx": ".onnx"}


def format_of(path: str | os.PathLike[str]) -> str:
    """The format for a file's name, by its ending; liblinear if it is none of theirs."""
    ending = PurePath(path).suffix.lower()
    return next((name for name, suffix in SUFFIXES.items() if suffix == ending), "liblinear")
