"""Arrays in files: numpy's, read in processes of several threads, and those in unnamed files.

numpy reads an array's header as a Python literal, and CPython before 3.11.8 raises SystemError when two threads
read a literal at once. So one thread at a time reads a header; the arrays themselves are read side by side.
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


_PIECE = 1 << 20
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_one_header_at_a_time = threading.Lock()


class Readable(Protocol):
    """Bytes that are read in order."""

    def read(self, size: int, /) -> bytes:
        """At most `size` next bytes; b"" at the end."""


def read_header(file: Readable) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the array is stored by columns, and dtype of the array that begins here.

    ValueError if none begins; OSError if the file cannot be read.
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
    """The array that begins here. ValueError if it is damaged, or of Python objects."""
    shape, by_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects is not read")
    array = fill(np.empty(shape[::-1] if by_columns else shape, dtype), file)
    return array.T if by_columns else array


def fill(array: Array, file: Readable) -> Array:
    """Read the array's bytes. ValueError if the file ends too early; a member of an archive checks its checksum."""
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
    """The array of a .npy file."""
    with path.open("rb") as file:
        return read_array(file)


def load_arrays(file: IO[bytes] | Path, *names: str) -> dict[str, Array]:
    """The arrays of a .npz file by name, all or those of these names.

    zipfile.BadZipFile if it is no archive, ValueError if an array is damaged, KeyError if one is missing.
    """
    with zipfile.ZipFile(file) as archive:
        names = names or tuple(member.removesuffix(".npy") for member in archive.namelist())
        return {name: member_array(archive, name) for name in names}


def member_array(archive: zipfile.ZipFile, name: str) -> Array:
    """One array of an open .npz file."""
    with archive.open(f"{name}.npy") as member:
        return read_array(member)


def scratch(directory: Path, dtype: np.dtype, *shape: int) -> Array:
    """An array of this shape in an unnamed file of the directory, which the kernel deletes with its last user.

    The disk holds its pages, not memory. Raises OSError if the disk has no room.
    """
    size = int(np.prod(shape)) * dtype.itemsize
    with tempfile.TemporaryFile(dir=directory) as file:
        # Allocate the disk now: writing to a hole of a sparse file on a full disk would kill the process.
        os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape)) if size else np.empty(shape, dtype)
