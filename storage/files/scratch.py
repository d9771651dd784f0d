"""An array in a file without a name: its pages need no memory, and nobody has to take it away."""

import os
import tempfile
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array


def scratch(directory: Path, dtype: np.dtype, *shape: int) -> Array:
    """Of this shape, on the disk of the directory; OSError if there is no room."""
    size = int(np.prod(shape)) * dtype.itemsize
    with tempfile.TemporaryFile(dir=directory) as file:
        # A sparse file would kill the process when the disk is full.
        os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape)) if size else np.empty(shape, dtype)
