"""Arrays in files: files of numpy, which several threads may read at once, mapped files, and unnamed files.

numpy reads an array's header as a Python literal, and CPython before 3.11.8 raises SystemError if two threads read
literals at once. So one thread at a time reads a header; several threads may read the arrays themselves.
"""

import os
import tempfile
import threading
import zipfile
from math import prod
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from streamsvm.storage.rows.csr import Array


def reserve(path: Path, end: int, start: int = 0) -> None:
    """Allocate disk space for the bytes [start, end) of a file; extend a shorter file. Raises OSError without space."""
    if end > start:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), start, end - start)


def new_array(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """Map a new file of zeros as an array. Raises OSError if the disk has no room."""
    path.write_bytes(b"")
    reserve(path, prod(shape) * dtype.itemsize)
    return open_array(path, dtype, shape, "r+")


def open_array(path: Path, dtype: np.dtype, shape: tuple[int, ...], mode: str) -> Array:
    """Map a file as an array. mode: "r" to read, "r+" to read and write, "w+" to make a sparse file of zeros first."""
    if not prod(shape):
        # An empty file cannot be mapped.
        path.touch()
        return np.empty(shape, dtype)
    # A plain array over the mapping: np.memmap's own class slows every access down, and takes long to make.
    size = prod(shape) * dtype.itemsize
    with path.open({"r": "rb", "r+": "r+b", "w+": "w+b"}[mode]) as file:
        if mode == "w+":
            file.truncate(size)
        mapping = mmap(file.fileno(), size, access=ACCESS_READ if mode == "r" else ACCESS_WRITE)
    return np.frombuffer(mapping, dtype).reshape(shape)


_PIECE = 1 << 20
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_one_header_at_a_time = threading.Lock()


class Readable(Protocol):
    """A file or stream whose bytes are read in order."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; b"" only at the end."""


def read_header(file: Readable) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a header in .npy format; return the array's shape, whether it is stored by columns, and its dtype.

    Raises ValueError if the file does not continue with a header, OSError if it cannot be read.
    """
    with _one_header_at_a_time:
        try:
            # numpy reads exact sizes alone, though the type of its argument asks for more.
            return _HEADERS[np.lib.format.read_magic(file)](file)  # type: ignore[arg-type]
        except OSError:
            raise
        except Exception as error:  # the text of a header is evaluated, which can raise many kinds of errors
            raise ValueError("this is no header of an array") from error


def read_array(file: Readable) -> Array:
    """Read an array in .npy format. Raises ValueError if it is damaged or contains Python objects."""
    shape, by_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects is not read")
    array = fill(np.empty(shape[::-1] if by_columns else shape, dtype), file)
    return array.T if by_columns else array


def fill(array: Array, file: Readable) -> Array:
    """Read the bytes of `array` from `file`, and return `array`. Raises ValueError if the file ends too early."""
    rest = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    while len(rest):
        piece = file.read(min(len(rest), _PIECE))
        if not piece:
            raise ValueError("the file ends inside an array")
        rest[: len(piece)] = np.frombuffer(piece, np.uint8)
        rest = rest[len(piece) :]
    file.read(1)  # the zip library compares the checksum of an array without elements, too
    return array


def load_array(path: Path) -> Array:
    """Read the array of a .npy file."""
    with path.open("rb") as file:
        return read_array(file)


def load_arrays(file: IO[bytes] | Path, *names: str) -> dict[str, Array]:
    """Read the arrays `names` of a .npz file, by default all; return them by name.

    Raises zipfile.BadZipFile if the file is no archive, ValueError for a damaged array, KeyError for a missing array.
    """
    with zipfile.ZipFile(file) as archive:
        names = names or tuple(member.removesuffix(".npy") for member in archive.namelist())
        return {name: member_array(archive, name) for name in names}


def member_array(archive: zipfile.ZipFile, name: str) -> Array:
    """Read one array of an open .npz file."""
    with archive.open(f"{name}.npy") as member:
        return read_array(member)


def scratch(directory: Path, dtype: np.dtype, *shape: int) -> Array:
    """Map an unnamed file in the directory as an array of this shape; the kernel deletes the file after its last use.

    The array's pages are on the disk and need not stay in memory. Raises OSError if the disk has no room.
    """
    size = int(np.prod(shape)) * dtype.itemsize
    with tempfile.TemporaryFile(dir=directory) as file:
        # Allocate the disk now: writing to a hole of a sparse file on a full disk would kill the process.
        os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape)) if size else np.empty(shape, dtype)
