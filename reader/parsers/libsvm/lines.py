"""Reads the lines of a range of a text window: the work of one thread of the LIBSVM parser."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.libsvm import libsvm_kernel as kernel
from streamsvm.reader.parsers.libsvm.fault import (
    BAD_BYTE,
    exact_fault,
    label_fault,
    pair_fault,
    value_fault,
    weight_fault,
)
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.text_window import TextWindow
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows

ROWS_A_BATCH = 1 << 18  # keeps the row arrays small when lines are two bytes long
HARD_TOKENS = 1 << 10
TOKEN = re.compile(rb"[^ \t\r\n#]*")


class LineReader:
    """Reads ranges of one window, one after the other, on any thread.

    lowest    smallest index allowed, 0 or 1
    features  every index is below it
    skip      True: rows that cannot be read are left out

    state     of `parse_lines`; its counts are over all ranges
    rows, nnz numbers of rows and values given out
    rejected  rows that were left out
    """

    def __init__(self, window: TextWindow, lowest: int, features: int, skip: bool = False) -> None:
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.state[kernel.MAX_INDEX] = -1
        self.state[kernel.MIN_INDEX] = kernel.INDEX_LIMIT
        self.rows = self.nnz = 0
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
        """Read rows as label:weight from now on; a label alone has weight 1."""
        self._weight = np.empty(ROWS_A_BATCH, WEIGHT)

    def start(self, begin: int, end: int) -> Rows | None:
        """Begin the range [begin, end) of the window, which ends behind a line feed, and `read` its first rows."""
        self._begin, self._end = begin, end
        pairs = (end - begin) // 4 + 1  # a pair takes four bytes with its blank
        if len(self._indices) < pairs:
            self._indices, self._values = np.empty(pairs, INDEX), np.empty(pairs, VALUE)
        return self.read()

    def read(self) -> Rows | None:
        """Read on, and return rows in new arrays; None if the lines read have no rows. Call it until `at_end`.

        InputError, unless rows are skipped, if the line behind these rows has a fault.
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
        elif stuck:
            self._hard = np.empty((2 * len(self._hard), 4), np.int64)
        self._begin = int(state[kernel.POSITION])
        if rows == 0:
            return None
        batch = self._copy(rows, int(state[kernel.PAIRS]))
        if has_zeros:
            batch = _without_zeros(batch)
            state[kernel.ZEROS] += state[kernel.PAIRS] - batch.nnz
        if bad_rows:
            batch = _without_rows(batch, bad_rows)
        self.rows += len(batch)
        self.nnz += batch.nnz
        return batch if len(batch) else None

    def _copy(self, rows: int, pairs: int) -> Rows:
        indptr = np.zeros(rows + 1, INDPTR)
        indptr[1:] = self._row_end[:rows]
        weight = self._weight[:rows].copy() if len(self._weight) else None
        indices, values = self._indices[:pairs].copy(), self._values[:pairs].copy()
        return Rows(self._label[:rows].copy(), indptr, indices, values, weight)

    def _patch_hard(self, hard: Array) -> tuple[bool, set[int]]:
        """Round the numbers in `hard`; return whether a value became zero, and which rows cannot be read.

        Tokens of the line in which the kernel stopped belong to one more row.
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
                begin = self._pair_start(begin) if fault else begin
                self._values[place] = number if fault is None else 1.0
                has_zeros = has_zeros or self._values[place] == 0
            if fault is not None:
                self.rejected.add(partial(self._window.error, begin, *fault))
                bad_rows.add(row)
        return has_zeros, bad_rows

    def _pair_start(self, value: int) -> int:
        place = value - 1  # the colon's
        while chr(self._window.buffer[place - 1]).isdigit():
            place -= 1
        return place

    def _fault(self) -> InputError:
        """The error where the kernel stopped."""
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
    """The error for a byte that must not be in a text."""
    byte = window.buffer[place]
    name = "a carriage return without line feed" if byte == kernel.RETURN else f"a byte 0x{byte:02x}"
    return window.error(place, "bad_byte", f"{name} in ASCII text")


def _without_zeros(batch: Rows) -> Rows:
    keep = batch.values != 0
    before = np.concatenate([np.zeros(1, INDPTR), np.cumsum(keep, dtype=INDPTR)])
    return replace(batch, indptr=before[batch.indptr], indices=batch.indices[keep], values=batch.values[keep])


def _without_rows(batch: Rows, rows: set[int]) -> Rows:
    keep = np.ones(len(batch), bool)
    keep[[row for row in rows if row < len(batch)]] = False
    lengths = np.diff(batch.indptr)
    keep_value = np.repeat(keep, lengths)
    indptr = np.concatenate([np.zeros(1, INDPTR), np.cumsum(lengths[keep], dtype=INDPTR)])
    weight = None if batch.weight is None else batch.weight[keep]
    return Rows(batch.label[keep], indptr, batch.indices[keep_value], batch.values[keep_value], weight)
