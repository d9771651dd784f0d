"""Arrays in mapped files whose room on the disk is taken before anybody uses them.

A process that uses a page of a mapped file dies of signal 7 where the disk has no room for that page.
"""

import os
from math import prod
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array


def reserve(path: Path, end: int, start: int = 0) -> None:
    """Take room on the disk for these bytes of a file, which grows to the end of them. Raises OSError without room."""
    if end > start:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), start, end - start)


def new_array(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """An array of zeros in a new file. Raises OSError if the disk has no room."""
    path.write_bytes(b"")
    reserve(path, prod(shape) * dtype.itemsize)
    return open_array(path, dtype, shape, "r+")


def open_array(path: Path, dtype: np.dtype, shape: tuple[int, ...], mode: str) -> Array:
    """The array of a file; mode: "r" to read it, "r+" to write it, too, "w+" makes a sparse file of zeros."""
    if not prod(shape):
        # There is no mapping of nothing.
        path.touch()
        return np.empty(shape, dtype)
    # A plain array over the mapping: np.memmap's own class slows every access down, and takes long to make.
    size = prod(shape) * dtype.itemsize
    with path.open({"r": "rb", "r+": "r+b", "w+": "w+b"}[mode]) as file:
        if mode == "w+":
            file.truncate(size)
        mapping = mmap(file.fileno(), size, access=ACCESS_READ if mode == "r" else ACCESS_WRITE)
    return np.frombuffer(mapping, dtype).reshape(shape)
