"""Inputs as parsers of binary formats read them: stored in a temporary file, or array by array."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.storage.files.arrays import read_header
from streamsvm.storage.rows.csr import Array

MOST_BYTES = 32 << 20  # of an array
# The directory of the temporary file, or a function that stores the chunks of an input and gives a file of them.
Scratch = Path | Callable[[Iterable[bytes]], AbstractContextManager[IO[bytes]]]


@contextmanager
def spooled(chunks: Iterable[bytes], scratch: Scratch) -> Iterator[tuple[IO[bytes], int]]:
    """Store an input in a file, and yield the file and its size.

    A temporary file has no name: it vanishes when the process ends.
    """
    with tempfile.TemporaryFile(dir=scratch) if isinstance(scratch, Path) else scratch(chunks) as file:
        if isinstance(scratch, Path):
            file.writelines(chunks)
        size = file.seek(0, 2)
        file.seek(0)
        yield file, size


class ArrayReader:
    """Reads bytes, and arrays written by `numpy.save`, from chunks of any size. To pyarrow it is a file."""

    closed = False

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = bytearray()

    def close(self) -> None:
        """Do nothing: pyarrow closes the files that it reads."""

    def is_at_end(self) -> bool:
        """Return whether all bytes have been read."""
        return not self._fill(1)

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes; return fewer only at the end of the input."""
        self._fill(size)
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def array(self, kinds: str) -> Array:
        """Read the next array. Raises InputError bad_batch unless it is a vector, empty or of a dtype.kind in kinds."""
        try:
            shape, _, dtype = read_header(self)
        except ValueError as error:
            raise bad_batch("there is no numpy array where one should be") from error
        if dtype.hasobject or len(shape) != 1 or (dtype.kind not in kinds and shape[0]):
            raise bad_batch("an array is no vector of numbers of the kind it should be")
        size = shape[0] * dtype.itemsize
        if size > MOST_BYTES:
            raise bad_batch(f"an array has {size} bytes; {MOST_BYTES} is the most: make smaller batches")
        data = self.read(size)
        if len(data) < size:
            raise bad_batch("the input ends inside an array")
        return np.frombuffer(data, dtype)

    def _fill(self, size: int) -> bool:
        """Buffer at least `size` bytes; return whether the input still has as many."""
        while len(self._held) < size and (chunk := next(self._chunks, None)) is not None:
            self._held += chunk
        return len(self._held) >= size


def bad_batch(message: str) -> InputError:
    return InputError("bad_batch", message)
