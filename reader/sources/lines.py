"""Cuts ranges of a text at line ends.

A line belongs to the range [start, stop) in which its first byte lies. With

    border(0) = 0,    border(x) = behind the first line feed at x - 1 or later, or the end of the file

the lines of a range are the bytes [border(start), border(stop)). Each line is in exactly one of consecutive ranges.
"""

from collections.abc import Iterable, Iterator

from streamsvm.reader.errors import InputError

# Longer than any line that a parser takes: without it, all machines would search a file without line feeds to its end.
LONGEST_LINE = 1 << 25


class LinesOfRange:
    """Iterates once, in pieces, over the lines that begin in [start, stop). InputError line_too_long.

    pieces  the bytes of the file from offset max(start - 1, 0) on; read no further than needed
    first   offset of the first line that begins in the range, once the first piece has been read
    """

    def __init__(self, pieces: Iterable[bytes], start: int, stop: int) -> None:
        self.first = start
        self._start, self._stop = start, stop
        self._lines = self._cut(pieces, max(start - 1, 0))

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def _cut(self, pieces: Iterable[bytes], place: int) -> Iterator[bytes]:
        searched, stop = 0, self._stop
        is_inside = self._start == 0
        for piece in pieces:
            first, last = 0, None
            if not is_inside:
                first = piece.find(b"\n", 0, max(stop - 1 - place, 0)) + 1
                is_inside = first > 0
                if not is_inside and place + len(piece) >= stop - 1:
                    return
                self.first = place + first
            if is_inside and place + len(piece) >= stop:
                last = piece.find(b"\n", max(first, stop - 1 - place)) + 1 or None
            if is_inside:
                yield piece if first == 0 and last is None else piece[first:last]
            if last is not None:
                return
            place += len(piece)
            searched = 0 if is_inside and place < stop else searched + len(piece)
            if searched > LONGEST_LINE:
                raise InputError("line_too_long", f"no line ends in {searched} bytes", byte=place - searched)
