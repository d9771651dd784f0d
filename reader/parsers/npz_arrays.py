"""Arrays of an npz file of unknown origin, read from front to back without loading them, and without pickle."""

import zipfile
import zlib
from typing import IO

import numpy as np

from reader.errors import InputError
from storage.csr import Array

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
            self.shape, in_columns, self.dtype = _HEADERS[np.lib.format.read_magic(self._file)](self._file)
        except (*_FAULTS, KeyError) as error:
            raise bad_npz(f"there is no array {name} that can be read") from error
        # Sizes are checked before anything is allocated.
        stated = self._file.tell() + self.dtype.itemsize * int(np.prod([1.0, *self.shape]))
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


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """The npz file. InputError bad_npz."""
    try:
        return zipfile.ZipFile(file)
    except _FAULTS as error:
        raise bad_npz("this is no whole npz file") from error


def bad_npz(message: str) -> InputError:
    """The error of a file that is not as it should be."""
    return InputError("bad_npz", message)
