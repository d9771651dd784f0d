"""Turns LIBSVM text into rows, in bounded memory. `libsvm_kernel` has the grammar above `parse_lines`."""

import math
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import pairwise

import numpy as np

from streamsvm.reader.errors import InputError, Rejected
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import libsvm_kernel as kernel
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.reader.parsers.values import (
    BAD_BYTE,
    WEIGHTED,
    exact_fault,
    label_fault,
    pair_fault,
    value_fault,
    weight_fault,
)
from streamsvm.storage.machine.thread_work import pool_of
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows

ROWS_A_BATCH = 1 << 18  # keeps the row arrays small when lines are two bytes long
HARD_TOKENS = 1 << 10
TOKEN = re.compile(rb"[^ \t\r\n#]*")


class LineReader:
    """Reads ranges of the text in one `TextWindow`, one range after the other, on any thread.

    lowest    smallest index allowed, 0 or 1
    features  indices must be below this number
    skip      True: rows with a fault are left out

    state     the array `state` of `parse_lines`; its counts are over all ranges
    rejected  counts the rows of the last range that were left out, and has their first errors
    """

    def __init__(self, window: TextWindow, lowest: int, features: int, skip: bool = False) -> None:
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.state[kernel.MAX_INDEX] = -1
        self.state[kernel.MIN_INDEX] = kernel.INDEX_LIMIT
        self.rejected = Rejected(skip)
        self._window = window
        self._lowest = lowest
        self._features = features
        self._begin = self._end = 0
        self._label = np.empty(ROWS_A_BATCH, LABEL)
        self._weight = np.empty(0, WEIGHT)
        self._row_end = np.empty(ROWS_A_BATCH, INDPTR)
        self._hard = np.empty((HARD_TOKENS, 4), np.int64)
        self._indices = np.empty(0, INDEX)
        self._values = np.empty(0, VALUE)

    @property
    def at_end(self) -> bool:
        return self._begin == self._end

    def expect_weights(self) -> None:
        """Read rows as label:weight from now on; a row with a label alone has weight 1."""
        self._weight = np.empty(ROWS_A_BATCH, WEIGHT)

    def start(self, begin: int, end: int) -> Rows | None:
        """Begin to read the whole lines between the offsets `begin` and `end` of the window; return as `read`."""
        self._begin, self._end = begin, end
        self.rejected = Rejected(self.rejected.skip)
        pairs = (end - begin) // 4 + 1  # a pair takes four bytes with its blank
        if len(self._indices) < pairs:
            self._indices, self._values = np.empty(pairs, INDEX), np.empty(pairs, VALUE)
        return self.read()

    def read(self) -> Rows | None:
        """Read further lines; return their rows in new arrays, None if they have no rows. Call it until `at_end`.

        Raises InputError for a line with a fault, unless faulty rows are skipped.
        """
        window, state = self._window, self.state
        state[[kernel.ROWS, kernel.PAIRS, kernel.HARD]] = 0
        state[kernel.POSITION] = self._begin
        outcome = kernel.parse_lines(
            window.text,
            self._end,
            window.max_line_bytes,
            self._lowest,
            self._features,
            self._label,
            self._weight,
            self._row_end,
            self._indices,
            self._values,
            self._hard,
            state,
        )
        # `hard` was full before the first line ended: check its tokens before it grows.
        stuck = outcome == kernel.FULL and state[kernel.POSITION] == self._begin
        has_zeros, bad_rows = self._patch_hard(self._hard if stuck else self._hard[: state[kernel.HARD]])
        rows = int(state[kernel.ROWS])
        if outcome == kernel.FAULT or rows in bad_rows:
            if rows not in bad_rows:
                self.rejected.add(self._fault)
            state[kernel.POSITION] = window.buffer.index(b"\n", int(state[kernel.POSITION])) + 1
            state[kernel.LINES] += 1
        elif stuck:
            self._hard = np.empty((2 * len(self._hard), 4), np.int64)
        self._begin = int(state[kernel.POSITION])
        if rows == 0:
            return None
        pairs = int(state[kernel.PAIRS])
        indptr = np.concatenate((np.zeros(1, INDPTR), self._row_end[:rows]))
        weight = self._weight[:rows].copy() if len(self._weight) else None
        indices, values = self._indices[:pairs].copy(), self._values[:pairs].copy()
        batch = Rows(self._label[:rows].copy(), indptr, indices, values, weight)
        if has_zeros:
            batch = _chosen(batch, np.ones(rows, bool), batch.values != 0)
            state[kernel.ZEROS] += state[kernel.PAIRS] - batch.nnz
        if bad_rows:
            is_good = ~np.isin(np.arange(rows), list(bad_rows))
            batch = _chosen(batch, is_good, np.repeat(is_good, np.diff(batch.indptr)))
        return batch if len(batch) else None

    def _patch_hard(self, hard: Array) -> tuple[bool, set[int]]:
        """Round the numbers in `hard`; return whether a value became zero, and the indices of rows with a fault.

        Tokens of the line at which the kernel stopped belong to the row behind the last complete one.
        """
        has_zeros = False
        bad_rows: set[int] = set()
        rows = int(self.state[kernel.ROWS])
        for kind, place, begin, end in hard.tolist():
            row = int(np.searchsorted(self._row_end[:rows], place, "right")) if kind == kernel.HARD_VALUE else place
            if row in bad_rows:
                continue
            token = bytes(self._window.buffer[begin:end])
            number = float(token)
            if kind == kernel.HARD_LABEL:
                fault = label_fault(token) if math.isinf(number) else exact_fault(token)
                self._label[place] = number
            elif kind == kernel.HARD_WEIGHT:
                fault = weight_fault(token)
                self._weight[place] = number
            else:
                fault = value_fault(token)
                while fault and chr(self._window.buffer[begin - 1]) in "0123456789:":  # to the start of the pair
                    begin -= 1
                self._values[place] = number if fault is None else 1.0
                has_zeros = has_zeros or self._values[place] == 0
            if fault is not None:
                self.rejected.add(partial(self._window.error, begin, *fault))
                bad_rows.add(row)
        return has_zeros, bad_rows

    def _fault(self) -> InputError:
        """Return the error for the token at which the kernel stopped."""
        place, previous = int(self.state[kernel.TOKEN]), int(self.state[kernel.PREVIOUS])
        match = TOKEN.match(self._window.buffer, place)
        token = match.group() if match else b""
        bad = BAD_BYTE.search(token)
        is_weight = previous < self._lowest - 2
        if bad or not (token or is_weight):
            return bad_byte(self._window, place + (bad.start() if bad else 0))
        fault = weight_fault(token) if is_weight else None
        if fault is not None:
            return self._window.error(place, *fault)
        if previous < self._lowest - 1:
            label = token.partition(b":")[0] if len(self._weight) else token
            return self._window.error(place, *label_fault(label))
        return self._window.error(place, *pair_fault(token, previous, self._lowest, self._features))


def bad_byte(window: TextWindow, place: int) -> InputError:
    """Return the error for the byte at offset `place`, which must not be in a text."""
    byte = window.buffer[place]
    name = "a carriage return without line feed" if byte == kernel.RETURN else f"a byte 0x{byte:02x}"
    return window.error(place, "bad_byte", f"{name} in ASCII text")


def _chosen(batch: Rows, rows: Array, values: Array) -> Rows:
    """The chosen rows (n,) bool of a batch, with the chosen values (nnz,) bool; a row left out has none of these."""
    before = np.concatenate([np.zeros(1, INDPTR), np.cumsum(values, dtype=INDPTR)])
    indptr = np.concatenate([before[:1], before[batch.indptr[1:]][rows]])
    weight = None if batch.weight is None else batch.weight[rows]
    return Rows(batch.label[rows], indptr, batch.indices[values], batch.values[values], weight)


# Matches one comment at a time: a pattern for all comments before the first row would take memory for each of them.
_COMMENT_OR_ROW = re.compile(rb"#[^\n]*|(?P<row>[^ \t\r\n#]+)")
RANGE_BYTES = 128 << 10  # less text is not worth a thread

# Names in the manifest of what the kernel counts.
_COUNTERS = {
    "explicit_zeros": kernel.ZEROS, "empty_rows": kernel.EMPTY, "blank_lines": kernel.BLANK,
    "comment_lines": kernel.COMMENT,
}  # fmt: skip


class LibsvmParser(Parser):
    """A `Parser` of LIBSVM text. Rows have weights if the first row begins with label:weight.

    Arguments:
    threads       number of threads, each of which reads a range of the text in memory; rows do not depend on it
    labelled      False: rows are predicted. They have no weights, so that index:value without a label before it is a
                  fault, and no row is left out
    window_bytes  bytes of text in memory at first; the window grows for a longer line
    range_bytes   least bytes of text for a thread

    Attributes:
    index_base    0 or 1: the option; with "auto" 0 if an index 0 occurred, else 1. Rows have the indices of the text
    counters      explicit_zeros: pairs left out because their value is zero as float32; empty_rows: rows of a label
                  only; blank_lines: lines of blanks only; comment_lines: lines of a comment only
    max_index     largest index of all pairs, explicit zeros too
    """

    def __init__(
        self,
        options: InputOptions,
        limits: InputLimits,
        threads: int = 1,
        *,
        labelled: bool = True,
        window_bytes: int = WINDOW_BYTES,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        super().__init__(options, limits, base=1)
        self._window = TextWindow(limits.max_line_bytes, window_bytes)
        self._range_bytes = range_bytes
        self._weights_settled = not labelled
        lowest = 1 if options.index_base == 1 else 0
        features = min(limits.max_features, kernel.INDEX_LIMIT)
        skip = labelled and self.rejected.skip
        self._readers = [LineReader(self._window, lowest, features, skip) for _ in range(threads)]

    @property
    def counters(self) -> dict[str, int]:
        return {name: sum(int(reader.state[place]) for reader in self._readers) for name, place in _COUNTERS.items()}

    def expect_weights(self, are_there: bool) -> None:
        self._weights_settled, self.is_weighted = True, are_there
        for reader in self._readers if are_there else ():
            reader.expect_weights()

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows in batches of up to about 4 MiB of text, each in arrays of its own.

        Raises InputError at the first fault, unless faulty rows are skipped; some rows before it may not be yielded.
        """
        window = self._window
        with pool_of(len(self._readers)) as pool:
            for _ in window.fill(chunks):
                yield from self._read_lines(pool)
        if window.ends_in_return:
            raise bad_byte(window, window.filled - 2)
        self.check_end()

    def _read_lines(self, pool: Executor) -> Iterator[Rows]:
        window = self._window
        end = window.lines_end()
        self._look_for_weights(end)
        ranges = list(pairwise(self._borders(window.begin, end)))
        # All readers begin at once, the first in this thread; their rows are taken in the order of the text.
        begun = [pool.submit(reader.start, *own) for reader, own in zip(self._readers[1:], ranges[1:], strict=False)]
        for number, (reader, own) in enumerate(zip(self._readers, ranges, strict=False)):
            batch = begun[number - 1].result() if number else reader.start(*own)
            while True:
                if batch is not None:
                    yield self.give(batch)
                if reader.at_end:
                    break
                batch = reader.read()
            self.rejected.join(reader.rejected)
        window.begin, window.lines_read = end, sum(int(reader.state[kernel.LINES]) for reader in self._readers)
        least = min(int(reader.state[kernel.MIN_INDEX]) for reader in self._readers)
        largest = max(int(reader.state[kernel.MAX_INDEX]) for reader in self._readers)
        if self._options.index_base == "auto":
            self.index_base = int(least != 0)
        self.max_index = largest if largest >= 0 else None
        window.check_tail()

    def _look_for_weights(self, end: int) -> None:
        """Settle by the first row of the text whether rows have weights."""
        if self._weights_settled:
            return
        matches = _COMMENT_OR_ROW.finditer(self._window.buffer, self._window.begin, end)
        first = next((match["row"] for match in matches if match["row"]), None)
        if first is not None:
            self.expect_weights(WEIGHTED.fullmatch(first) is not None)

    def _borders(self, begin: int, end: int) -> list[int]:
        """Return the offsets at which the ranges that the threads read begin and end, `begin` and `end` included."""
        count = min(len(self._readers), max((end - begin) // self._range_bytes, 1))
        middle = [begin + (end - begin) * k // count for k in range(1, count)]
        inner = {self._window.buffer.index(b"\n", place, end) + 1 for place in middle}
        return sorted({begin, end} | inner)
