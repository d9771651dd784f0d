"""LIBSVM text to rows, in bounded memory. The grammar stands above `parse_lines` in `libsvm_kernel`."""

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

from reader.errors import InputError
from reader.limits import Limits
from reader.parsers import libsvm_kernel as kernel
from reader.parsers.libsvm_fault import BAD_BYTE, label_fault, pair_fault, value_fault
from reader.sniff import HEAD_BYTES, refuse_foreign
from reader.text_window import WINDOW_BYTES, TextWindow
from storage.csr import INDEX, INDPTR, LABEL, VALUE, Array, Rows

ROWS_A_BATCH = 1 << 18  # keeps the row arrays small when lines are two bytes long
HARD_TOKENS = 1 << 10
TOKEN = re.compile(rb"[^ \t\r\n#]*")


def parse(chunks: Iterable[bytes], index_base: str | int = "auto", limits: Limits | None = None) -> Iterator[Rows]:
    """The rows of the text in `chunks`, see LibsvmParser."""
    return LibsvmParser(index_base, limits).parse_chunks(chunks)


class LibsvmParser:
    """Reads one text, given in pieces of any size, and counts what it met.

    index_base: 1 refuses index 0; 0 and "auto" accept it. Indices are passed on as they are in the text.
    window_bytes: text in memory at first; a longer line makes it grow.

    rows, nnz       rows and values given out
    explicit_zeros  pairs left out because their value is zero as float32
    empty_rows      rows of a label only
    blank_lines     lines of blanks only
    comment_lines   lines of a comment only
    max_index, min_index  over every pair, explicit zeros too; None before the first
    had_bom         whether the text began with a UTF-8 byte order mark
    """

    def __init__(
        self, index_base: str | int = "auto", limits: Limits | None = None, *, window_bytes: int = WINDOW_BYTES
    ) -> None:
        if index_base not in ("auto", 0, 1):
            raise ValueError(f"index_base is 'auto', 0 or 1, not {index_base!r}")
        self.limits = limits or Limits()
        self.rows = self.nnz = 0
        self.had_bom = False
        self._lowest = 1 if index_base == 1 else 0
        self._features = min(self.limits.max_features, kernel.INDEX_LIMIT)
        self._window = TextWindow(self.limits.max_line_bytes, max(window_bytes, 2 * HEAD_BYTES))
        self._started = False
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._state[kernel.MAX_INDEX] = -1
        self._state[kernel.MIN_INDEX] = kernel.INDEX_LIMIT
        self._label = np.empty(ROWS_A_BATCH, LABEL)
        self._row_end = np.empty(ROWS_A_BATCH, INDPTR)
        self._hard = np.empty((HARD_TOKENS, 4), np.int64)
        self._indices = np.empty(0, INDEX)
        self._values = np.empty(0, VALUE)

    @property
    def blank_lines(self) -> int:
        return int(self._state[kernel.BLANK])

    @property
    def comment_lines(self) -> int:
        return int(self._state[kernel.COMMENT])

    @property
    def explicit_zeros(self) -> int:
        return int(self._state[kernel.ZEROS])

    @property
    def empty_rows(self) -> int:
        return int(self._state[kernel.EMPTY])

    @property
    def max_index(self) -> int | None:
        index = int(self._state[kernel.MAX_INDEX])
        return index if index >= 0 else None

    @property
    def min_index(self) -> int | None:
        return int(self._state[kernel.MIN_INDEX]) if self.max_index is not None else None

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """The rows in batches of up to about 4 MiB of text, each in arrays of its own.

        InputError at the first fault of the text; the rows shortly before it may not have been given out.
        """
        window = self._window
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[window.take(rest) :]
                if window.full:
                    yield from self._read_lines()
                    window.make_room()
        stray_return = window.end_last_line()
        yield from self._read_lines()
        if stray_return:
            raise self._bad_byte(window.filled - 2)
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row")

    def _read_lines(self) -> Iterator[Rows]:
        window = self._window
        if not self._started:
            self._started = True
            self.had_bom = window.skip_mark()
            refuse_foreign(bytes(window.buffer[window.begin : min(window.begin + HEAD_BYTES, window.filled)]))
        end = window.lines_end()
        while window.begin < end:
            batch = self._read_batch(end)
            if batch is not None:
                yield batch
        window.check_tail()

    def _read_batch(self, end: int) -> Rows | None:
        """Reads lines from the window's `begin` on, which it moves; None when none of them was a row."""
        window, state = self._window, self._state
        self._reserve(len(window.buffer) // 4 + 1)  # a pair takes four bytes with its blank
        state[[kernel.ROWS, kernel.PAIRS, kernel.HARD]] = 0
        state[kernel.POSITION] = window.begin
        outcome = kernel.parse_lines(
            window.text,
            end,
            self.limits.max_line_bytes,
            self._lowest,
            self._features,
            self._label,
            self._row_end,
            self._indices,
            self._values,
            self._hard,
            state,
        )
        # Full before the end of its first line: all of `hard` is of that line, and is checked before it grows.
        stuck = outcome == kernel.FULL and state[kernel.POSITION] == window.begin
        has_zeros = self._patch_hard(self._hard if stuck else self._hard[: state[kernel.HARD]])
        if outcome == kernel.FAULT:
            raise self._fault()
        if stuck:
            self._hard = np.empty((2 * len(self._hard), 4), np.int64)
        window.begin = int(state[kernel.POSITION])
        rows = int(state[kernel.ROWS])
        if rows == 0:
            return None
        batch = self._copy(rows, int(state[kernel.PAIRS]))
        if has_zeros:
            batch = _without_zeros(batch)
            state[kernel.ZEROS] += state[kernel.PAIRS] - batch.nnz
        self.rows += rows
        self.nnz += batch.nnz
        return batch

    def _reserve(self, pairs: int) -> None:
        if len(self._indices) < pairs:
            self._indices, self._values = np.empty(pairs, INDEX), np.empty(pairs, VALUE)

    def _copy(self, rows: int, pairs: int) -> Rows:
        indptr = np.zeros(rows + 1, INDPTR)
        indptr[1:] = self._row_end[:rows]
        return Rows(self._label[:rows].copy(), indptr, self._indices[:pairs].copy(), self._values[:pairs].copy())

    def _patch_hard(self, hard: Array) -> bool:
        """Rounds what the kernel left over; whether a value came out as zero."""
        has_zeros = False
        for kind, place, begin, end in hard.tolist():
            token = bytes(self._window.buffer[begin:end])
            number = float(token)
            if kind == kernel.HARD_LABEL:
                if math.isinf(number):
                    raise self._window.error(begin, *label_fault(token))
                self._label[place] = number
                continue
            fault = value_fault(token)
            if fault is not None:
                raise self._window.error(self._pair_start(begin), *fault)
            self._values[place] = number
            has_zeros = has_zeros or self._values[place] == 0
        return has_zeros

    def _pair_start(self, value: int) -> int:
        place = value - 1  # of the colon
        while chr(self._window.buffer[place - 1]).isdigit():
            place -= 1
        return place

    def _fault(self) -> InputError:
        """What is wrong where the kernel stopped."""
        place, previous = int(self._state[kernel.TOKEN]), int(self._state[kernel.PREVIOUS])
        match = TOKEN.match(self._window.buffer, place)
        token = match.group() if match else b""
        bad = BAD_BYTE.search(token)
        if bad or not token:
            return self._bad_byte(place + (bad.start() if bad else 0))
        if previous < self._lowest - 1:
            return self._window.error(place, *label_fault(token))
        return self._window.error(place, *pair_fault(token, previous, self._lowest, self._features))

    def _bad_byte(self, place: int) -> InputError:
        byte = self._window.buffer[place]
        name = "a carriage return without line feed" if byte == kernel.RETURN else f"a byte 0x{byte:02x}"
        return self._window.error(place, "bad_byte", f"{name} in ASCII text")


def _without_zeros(batch: Rows) -> Rows:
    keep = batch.values != 0
    before = np.concatenate([np.zeros(1, INDPTR), np.cumsum(keep, dtype=INDPTR)])
    return Rows(batch.label, before[batch.indptr], batch.indices[keep], batch.values[keep])
