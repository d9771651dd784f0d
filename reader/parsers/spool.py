"""Stores an input in a temporary file, for formats that need random access."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

# The directory of the temporary file, or a function that stores the chunks of an input and gives a file of them.
Scratch = Path | Callable[[Iterable[bytes]], AbstractContextManager[IO[bytes]]]


@contextmanager
def spooled(chunks: Iterable[bytes], scratch: Scratch) -> Iterator[IO[bytes]]:
    """Store an input in a file, and yield the file. A temporary file has no name: it vanishes when the process ends."""
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
    """Return the size of a file in bytes, and seek to its beginning."""
    size = file.seek(0, 2)
    file.seek(0)
    return size
