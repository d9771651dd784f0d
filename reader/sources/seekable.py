"""Opens a file of any store for reading at any place, for formats that are not read from front to back."""

import io
from typing import IO, Any

from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.locations import LOCAL, located
from streamsvm.reader.sources.pieces import read_bytes

_BUFFER_BYTES = 1 << 20


def open_seekable(file: SourceFile) -> IO[bytes]:
    """A file to read and seek in. Raises OSError of a file on this machine, InputError of a store."""
    location = located(file.url)
    if location.scheme == LOCAL:
        return open(location.path, "rb")  # noqa: PTH123 - the caller closes it
    return io.BufferedReader(_Ranges(file), _BUFFER_BYTES)


class _Ranges(io.RawIOBase):
    """Reads ranges of a file of a store."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self._file, self._place = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._file.size}[whence]
        self._place = max(0, begin + place)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        stop = min(self._place + len(buffer), self._file.size)
        if stop <= self._place:
            return 0
        data = read_bytes(self._file, self._place, stop)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)
