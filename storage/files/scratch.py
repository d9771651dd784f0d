"""Arrays in unnamed files: the disk holds their pages, and the kernel deletes the file with its last user."""

import os
import tempfile
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array


def scratch(directory: Path, dtype: np.dtype, *shape: int) -> Array:
    """An array of this shape in an unnamed file of the directory. Raises OSError if the disk has no room."""
    size = int(np.prod(shape)) * dtype.itemsize
    with tempfile.TemporaryFile(dir=directory) as file:
        # Allocate the disk now: writing to a hole of a sparse file on a full disk would kill the process.
        os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape)) if size else np.empty(shape, dtype)
