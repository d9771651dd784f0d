"""The part of a text that is in memory: some whole lines and the beginning of the next."""

import numpy as np

from streamsvm.reader.errors import InputError

WINDOW_BYTES = 4 << 20
SPARE_BYTES = 8  # for a missing last line feed, and for a byte order mark beside the longest line
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextWindow:
    """Text goes in at `filled` and is read from `begin` on; both are offsets in `buffer`.

    buffer  bytearray, with `text` (len(buffer),) uint8 as a view of it; both are new after `make_room`
    """

    def __init__(self, max_line_bytes: int, size: int = WINDOW_BYTES) -> None:
        self.max_line_bytes = max_line_bytes
        self.begin = self.filled = 0
        self._bytes_before = self._lines_before = 0
        self.buffer = bytearray(size + SPARE_BYTES)
        self.text = np.frombuffer(self.buffer, np.uint8)

    @property
    def full(self) -> bool:
        return self.filled == len(self.buffer) - SPARE_BYTES

    def take(self, data: memoryview) -> int:
        """Copies in what fits; how many bytes that was."""
        count = min(len(data), len(self.buffer) - SPARE_BYTES - self.filled)
        self.buffer[self.filled : self.filled + count] = data[:count]
        self.filled += count
        return count

    def skip_mark(self) -> bool:
        """Leaves out a UTF-8 byte order mark; whether there was one."""
        if not self.buffer.startswith(BYTE_ORDER_MARK, 0, self.filled):
            return False
        self.begin = len(BYTE_ORDER_MARK)
        return True

    def end_last_line(self) -> bool:
        """Adds a missing last line feed; whether it now stands behind a carriage return that had none."""
        if self.filled == self.begin or self.buffer[self.filled - 1] == ord("\n"):
            return False
        stray = self.buffer[self.filled - 1] == ord("\r")
        self.buffer[self.filled] = ord("\n")
        self.filled += 1
        return stray

    def lines_end(self) -> int:
        """Offset behind the last whole line; `begin` when there is none."""
        return max(self.begin, self.buffer.rfind(b"\n", self.begin, self.filled) + 1)

    def check_tail(self) -> None:
        """InputError when what lies behind `begin`, the beginning of a line, is too long already."""
        if self.filled - self.begin > self.max_line_bytes:
            raise self.error(self.begin, "line_too_long", self._too_long())

    def make_room(self, lines: int) -> None:
        """Drops what lies before `begin`, the end of the first `lines` lines; if that is nothing, the window grows."""
        if self.begin:
            self._lines_before = lines
            self._bytes_before += self.begin
            left = self.filled - self.begin
            self.buffer[:left] = self.buffer[self.begin : self.filled]
            self.begin, self.filled = 0, left
        if self.full:
            # Two more than a line may have, and the spare: enough to tell that it is too long.
            size = max(len(self.buffer) + SPARE_BYTES, min(2 * len(self.buffer), self.max_line_bytes + 2 * SPARE_BYTES))
            larger = bytearray(size)
            larger[: self.filled] = memoryview(self.buffer)[: self.filled]
            self.buffer, self.text = larger, np.frombuffer(larger, np.uint8)

    def error(self, place: int, code: str, message: str) -> InputError:
        """The error at offset `place`; line_too_long instead when its line is too long."""
        start = self.buffer.rfind(b"\n", 0, place) + 1
        mark = len(BYTE_ORDER_MARK) if self._at_mark(start) else 0
        end = self.buffer.find(b"\n", place, self.filled)
        if end - start - mark > self.max_line_bytes:
            code, message = "line_too_long", self._too_long()
        column = None
        if code == "line_too_long":
            place = start + mark
        else:
            column = place - start - mark + 1
        line = self._lines_before + self.buffer.count(b"\n", 0, place) + 1
        return InputError(code, message, line=line, column=column, byte=self._bytes_before + place)

    def _at_mark(self, start: int) -> bool:
        return self._bytes_before == start == 0 and self.buffer.startswith(BYTE_ORDER_MARK)

    def _too_long(self) -> str:
        return f"the line has more than {self.max_line_bytes} bytes"
