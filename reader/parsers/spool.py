"""Stores an input in a temporary file, for formats that are not read from front to back."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def spooled(chunks: Iterable[bytes], directory: Path) -> Iterator[IO[bytes]]:
    """A file in `directory` with the input. It has no name, so that it goes when the process ends in any way."""
    with tempfile.TemporaryFile(dir=directory) as file:
        for chunk in chunks:
            file.write(chunk)
        file.seek(0)
        yield file


def size_of(file: IO[bytes]) -> int:
    """The size of a spooled file in bytes; rewinds the file."""
    size = file.seek(0, 2)
    file.seek(0)
    return size
