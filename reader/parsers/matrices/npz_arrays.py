"""Arrays of an npz file of unknown origin, read from front to back without loading them, and without pickle."""

import math
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.storage.rows.csr import Array

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_FAULTS = (ValueError, zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)


class StoredArray:
    """One array of the file: `read` gives its numbers in order.

    shape, dtype  as the array says
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._name = name
        try:
            info = archive.getinfo(f"{name}.npy")
            self._file: IO[bytes] = archive.open(info)
            self.shape, in_columns, self.dtype = read_header(self._file)
        except (*_FAULTS, KeyError) as error:
            raise bad_npz(f"there is no array {name} that can be read") from error
        # Sizes are checked before anything is allocated.
        stated = self._file.tell() + self.dtype.itemsize * math.prod(self.shape)
        if self.dtype.hasobject or in_columns or len(self.shape) > 1 or stated != info.file_size:
            raise bad_npz(f"{name} is no plain array of the size it states")

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 1

    def is_of(self, kinds: str) -> bool:
        """Whether the numbers are of one of the kinds of numpy: b, i, u, f."""
        return self.dtype.kind in kinds

    def read(self, count: int) -> Array:
        """The next (count,) numbers."""
        size = count * self.dtype.itemsize
        try:
            data = self._file.read(size)
        except _FAULTS as error:
            raise bad_npz(f"the array {self._name} is damaged") from error
        if len(data) < size:
            raise bad_npz(f"the array {self._name} ends early")
        return np.frombuffer(data, self.dtype)

    def check_end(self) -> None:
        """Reads on to the end, where the checksum is compared."""
        try:
            self._file.read(1)
        except _FAULTS as error:
            raise bad_npz(f"the array {self._name} is damaged") from error


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array that begins here. ValueError if there is none."""
    try:
        return _HEADERS[np.lib.format.read_magic(file)](file)
    except OSError:
        raise
    except Exception as error:  # it is Python's text, and a dozen kinds of errors come of what is none
        raise ValueError("this is no header of an array") from error


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """The npz file. InputError bad_npz."""
    try:
        return zipfile.ZipFile(file)
    except _FAULTS as error:
        raise bad_npz("this is no whole npz file") from error


def bad_npz(message: str) -> InputError:
    """The error of a file that is not as it should be."""
    return InputError("bad_npz", message)
