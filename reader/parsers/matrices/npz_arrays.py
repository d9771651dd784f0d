"""Reads arrays of an npz file of unknown origin from front to back, without loading them and without pickle."""

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
    """One array of the file. InputError bad_npz if it is missing or not plain.

    shape, dtype  that the array's header states
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
        """Whether dtype.kind is in `kinds`, such as "biuf"."""
        return self.dtype.kind in kinds

    def read(self, count: int) -> Array:
        """The next (count,) entries. InputError bad_npz."""
        size = count * self.dtype.itemsize
        try:
            data = self._file.read(size)
        except _FAULTS as error:
            raise bad_npz(f"the array {self._name} is damaged") from error
        if len(data) < size:
            raise bad_npz(f"the array {self._name} ends early")
        return np.frombuffer(data, self.dtype)

    def check_end(self) -> None:
        """Read to the end, where the zip library compares the checksum. InputError bad_npz."""
        try:
            self._file.read(1)
        except _FAULTS as error:
            raise bad_npz(f"the array {self._name} is damaged") from error


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype of the array that begins here. ValueError if none begins."""
    try:
        return _HEADERS[np.lib.format.read_magic(file)](file)
    except OSError:
        raise
    except Exception as error:  # numpy evaluates the header as Python's text, which can raise many kinds of errors
        raise ValueError("this is no header of an array") from error


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open the npz file. InputError bad_npz."""
    try:
        return zipfile.ZipFile(file)
    except _FAULTS as error:
        raise bad_npz("this is no whole npz file") from error


def bad_npz(message: str) -> InputError:
    """The error of a damaged file, or of one with other arrays."""
    return InputError("bad_npz", message)
