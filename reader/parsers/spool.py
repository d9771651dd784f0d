"""Stores an input in a temporary file, for formats that are not read from front to back."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

# A directory, or a function that stores an input elsewhere.
Scratch = Path | Callable[[Iterable[bytes]], AbstractContextManager[IO[bytes]]]


@contextmanager
def spooled(chunks: Iterable[bytes], scratch: Scratch) -> Iterator[IO[bytes]]:
    """A file with the input. It has no name, so that it goes when the process ends in any way."""
    if not isinstance(scratch, Path):
        with scratch(chunks) as file:
            yield file
        return
    with tempfile.TemporaryFile(dir=scratch) as file:
        for chunk in chunks:
            file.write(chunk)
        file.seek(0)
        yield file


def size_of(file: IO[bytes]) -> int:
    """The size of a spooled file in bytes; rewinds the file."""
    size = file.seek(0, 2)
    file.seek(0)
    return size
