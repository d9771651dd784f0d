"""Maps places in a text that was joined from ranges of files to places in these files."""

from bisect import bisect_right
from typing import NamedTuple

from streamsvm.reader.errors import InputError


class _Mark(NamedTuple):
    """A range of a file begins here in the joined text.

    at_byte, lines_before  where in the joined text
    byte, line             where in the file; line is None if nobody knows its number
    """

    at_byte: int
    lines_before: int
    file: str
    byte: int
    line: int | None


class FileOffsets:
    """Call `begin` for each range and `passed` for each piece of it, in the order of the text; then `placed`."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._bytes = self._lines = 0

    def begin(self, file: str, byte: int, line: int | None) -> None:
        """The next pieces are of this file, from offset `byte`, the beginning of this line, on."""
        self._marks.append(_Mark(self._bytes, self._lines, file, byte, line))

    def passed(self, piece: bytes) -> None:
        """Count the bytes and lines of the next piece."""
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")

    def placed(self, error: InputError) -> InputError:
        """The error with its place in its file. An error without a place names a file only if there is just one."""
        mark = None if error.file else self._mark(error)
        if mark is None:
            return error
        line = byte = None
        if error.line is not None and mark.line is not None:
            line = mark.line + error.line - 1 - mark.lines_before
        if error.byte is not None:
            byte = mark.byte + error.byte - mark.at_byte
        place = {"line": line, "column": error.column, "byte": byte}
        return InputError(error.code, error.message, hint=error.hint, file=mark.file, **place)

    def _mark(self, error: InputError) -> _Mark | None:
        """The mark of the range that holds the error's place."""
        if error.byte is not None:
            count = bisect_right(self._marks, error.byte, key=lambda mark: mark.at_byte)
        elif error.line is not None:
            count = bisect_right(self._marks, error.line - 1, key=lambda mark: mark.lines_before)
        else:
            count = 1 if len({mark.file for mark in self._marks}) == 1 else 0
        return self._marks[count - 1] if count else None
