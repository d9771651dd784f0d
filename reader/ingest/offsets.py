"""Where a place of a text that was joined from parts of files lies in its file."""

from bisect import bisect_right
from typing import NamedTuple

from streamsvm.reader.errors import InputError


class _Mark(NamedTuple):
    """From here on the text is of a file: there from offset `byte` on, which begins line `line`, if that is known."""

    at_byte: int
    lines_before: int
    file: str
    byte: int
    line: int | None


class Places:
    """Told what is joined, in its order, it knows where a fault is."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._bytes = self._lines = 0

    def begin(self, file: str, byte: int, line: int | None) -> None:
        """What is passed on next is of this file, see `_Mark`."""
        self._marks.append(_Mark(self._bytes, self._lines, file, byte, line))

    def passed(self, piece: bytes) -> None:
        """A piece of the text."""
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")

    def told(self, error: InputError) -> InputError:
        """The same error with its place in its file. One without a place is of all files."""
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
        if error.byte is not None:
            known = bisect_right(self._marks, error.byte, key=lambda mark: mark.at_byte)
        elif error.line is not None:
            known = bisect_right(self._marks, error.line - 1, key=lambda mark: mark.lines_before)
        else:
            known = 1 if len({mark.file for mark in self._marks}) == 1 else 0
        return self._marks[known - 1] if known else None
