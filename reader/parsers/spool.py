"""Formats that are not read from front to back: the input goes to a file first."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def spooled(chunks: Iterable[bytes], directory: Path) -> Iterator[IO[bytes]]:
    """The input as a file in `directory`. It has no name: nothing is left of it, however the process ends."""
    with tempfile.TemporaryFile(dir=directory) as file:
        for chunk in chunks:
            file.write(chunk)
        file.seek(0)
        yield file


def size_of(file: IO[bytes]) -> int:
    """Bytes of a spooled file; it is at its start afterwards."""
    size = file.seek(0, 2)
    file.seek(0)
    return size
