"""A buffer with the part of a text that is in memory: some whole lines, and the beginning of the next line."""

from collections.abc import Iterable, Iterator

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.sniff import HEAD_BYTES, refuse_foreign

WINDOW_BYTES, _FIRST_BYTES = 4 << 20, 64 << 10
SPARE_BYTES = 8  # for a missing last line feed, a byte order mark beside the longest line, eight bytes read at once
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE = ord("\n")


class TextWindow:
    """A buffer of text: `fill` appends at the offset `filled`, the caller reads from the offset `begin` on.

    The buffer of a short text is short, too: to clear `size` bytes takes longer than to read few rows.

    buffer          bytearray; the array `text` (len(buffer),) uint8 shares its memory. `fill` may replace both
    lines_read      number of lines of the whole text before `begin`, if the caller counts them; else None
    ends_in_return  whether the text ends in a carriage return without a line feed; known after `fill`
    """

    def __init__(self, max_line_bytes: int, size: int = WINDOW_BYTES) -> None:
        self.max_line_bytes = max_line_bytes
        self.begin = self.filled = 0
        self.lines_read: int | None = None
        self.ends_in_return = False
        self._bytes_before = self._lines_before = 0
        self._size = max(size, 2 * HEAD_BYTES) + SPARE_BYTES
        self.buffer = bytearray(min(self._size, _FIRST_BYTES))
        self.text = np.frombuffer(self.buffer, np.uint8)

    @property
    def full(self) -> bool:
        return self.filled == len(self.buffer) - SPARE_BYTES

    def fill(self, chunks: Iterable[bytes], *, refuse: bool = True, is_json: bool = False) -> Iterator[None]:
        """Copy a text into the window; yield whenever the window is full, and once at the end of the text.

        After each yield the caller reads the whole lines and moves `begin` behind them. A byte order mark is skipped.
        Raises InputError unknown_format if `refuse` is true and the text looks like a file of another format; is_json:
        than JSON lines.
        """
        is_started = False
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[self._take(rest) :]
                if self.full and len(self.buffer) < self._size:
                    self._grow(min(4 * len(self.buffer), self._size))
                elif self.full:
                    if not is_started:
                        is_started = True
                        self._start(refuse, is_json)
                    yield
                    self._make_room()
        if not is_started:
            self._start(refuse, is_json)
        if self.filled > self.begin and self.buffer[self.filled - 1] != _NEWLINE:
            # The last line has no line feed: add it.
            self.ends_in_return = self.buffer[self.filled - 1] == ord("\r")
            self.buffer[self.filled] = _NEWLINE
            self.filled += 1
        yield

    def lines_end(self) -> int:
        """Return the offset behind the last whole line; `begin` if no line is whole."""
        return max(self.begin, self.buffer.rfind(b"\n", self.begin, self.filled) + 1)

    def check_tail(self) -> None:
        """Raise InputError line_too_long if the unfinished line at `begin` already exceeds `max_line_bytes`."""
        if self.filled - self.begin > self.max_line_bytes:
            raise self.error(self.begin, "line_too_long", self._too_long())

    def error(self, place: int, code: str, message: str, hint: str = "") -> InputError:
        """Return the error at offset `place`; line_too_long if its line is too long. hint: "" means the code's hint."""
        start = self.buffer.rfind(b"\n", 0, place) + 1
        mark = len(BYTE_ORDER_MARK) if self._at_mark(start) else 0
        end = self.buffer.find(b"\n", place, self.filled)
        if end - start - mark > self.max_line_bytes:
            code, message, hint = "line_too_long", self._too_long(), ""
        column = None
        if code == "line_too_long":
            place = start + mark
        else:
            column = place - start - mark + 1
        line = self._lines_before + self.buffer.count(b"\n", 0, place) + 1
        byte = self._bytes_before + place
        return InputError(code, message, hint=hint or None, line=line, column=column, byte=byte)

    def _take(self, data: memoryview) -> int:
        """Copy as much of `data` into the window as fits; return the number of bytes copied."""
        count = min(len(data), len(self.buffer) - SPARE_BYTES - self.filled)
        self.buffer[self.filled : self.filled + count] = data[:count]
        self.filled += count
        return count

    def _start(self, refuse: bool, is_json: bool) -> None:
        if self._at_mark(0):
            self.begin = len(BYTE_ORDER_MARK)
        if refuse:
            refuse_foreign(bytes(self.buffer[self.begin : min(self.begin + HEAD_BYTES, self.filled)]), is_json)

    def _make_room(self) -> None:
        """Drop the text before `begin`; if the window is still full, make it larger."""
        if self.begin:
            counted, before = self.lines_read, self._lines_before
            self._lines_before = before + self.buffer.count(b"\n", 0, self.begin) if counted is None else counted
            self._bytes_before += self.begin
            remaining = self.filled - self.begin
            self.buffer[:remaining] = self.buffer[self.begin : self.filled]
            self.begin, self.filled = 0, remaining
        if self.full:
            # Two bytes more than a line may have, and the spare: enough to see that it is too long.
            size = max(len(self.buffer) + SPARE_BYTES, min(2 * len(self.buffer), self.max_line_bytes + 2 * SPARE_BYTES))
            self._grow(size)

    def _grow(self, size: int) -> None:
        larger = bytearray(size)
        larger[: self.filled] = memoryview(self.buffer)[: self.filled]
        self.buffer, self.text = larger, np.frombuffer(larger, np.uint8)

    def _at_mark(self, start: int) -> bool:
        return self._bytes_before == start == 0 and self.buffer.startswith(BYTE_ORDER_MARK, 0, self.filled)

    def _too_long(self) -> str:
        return f"the line has more than {self.max_line_bytes} bytes"
