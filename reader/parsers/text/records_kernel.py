"""Inner loops that find labels and documents in lines, and in columns of CSV and TSV."""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Columns of `heads`.
PLACE, COLUMNS, FAULT = range(3)

QUOTE, NEWLINE, RETURN, SPACE, TAB = 34, 10, 13, 32, 9

# find_records reads the whole records of text[begin:end]:
#
#   record = field (delimiter field)* [CR] LF      field = '"' anything '"', a quote in it written twice, or bytes
#
# A field in quotes may have delimiters and line feeds. In a field that does not begin with one, a quote is a character.
#
# text (n,) uint8; wanted (w,) int64: positions of columns from 0, -1 for no column.
# Changed in place: heads (r, 3) int64: where the record begins, its number of columns, 0 if it is blank, and where a
# quote is closed before the end of its field, else -1; spans (r, w, 3) int64: begin and end of each wanted field
# without its quotes, and whether it has quotes written twice. The span of a column that does not exist is empty.
#
# Returns the number of records, and the offset of the next one: the arrays are full, or that record is not whole.
#
# first_of(byte, text (n,) uint8, spans (k, 2), out (k,)): writes the first offset of `byte` in each span, or its end.
#
# strip(text (n,) uint8, start (k,), stop (k,)): moves the ends of fields so that they have no blanks there.


@njit(cache=True, nogil=True)
def field_end(text: Array, p: int, end: int, delimiter: int) -> int:
    """Return the offset of the first delimiter or line feed from p on, or `end`."""
    while p < end and text[p] != delimiter and text[p] != NEWLINE:
        p += 1
    return p


@njit(cache=True, nogil=True)
def quote_end(text: Array, p: int, end: int) -> tuple[int, bool]:
    """Return the offset of the quote that closes the field at p, or `end`, and whether the field has doubled quotes."""
    doubled = False
    while p < end:
        if text[p] == QUOTE:
            if p + 1 < end and text[p + 1] == QUOTE:
                doubled = True
                p += 1
            else:
                return p, doubled
        p += 1
    return end, doubled


@njit(cache=True, nogil=True)
def find_records(
    text: Array, begin: int, end: int, delimiter: int, wanted: Array, heads: Array, spans: Array
) -> tuple[int, int]:
    count = 0
    p = begin
    while p < end and count < len(heads):
        start, column, is_blank = p, 0, True
        fault: Any = np.int64(-1)
        spans[count] = 0
        while True:
            first, doubled = p, False
            if text[p] == QUOTE:
                is_blank = False
                first = p + 1
                last, doubled = quote_end(text, first, end)
                p = field_end(text, last + 1, end, delimiter)
                if p > last + 1 and not (p == last + 2 and text[last + 1] == RETURN) and fault < 0:
                    fault = last + 1
            else:
                p = field_end(text, p, end, delimiter)
                last = p - 1 if p < end and text[p] == NEWLINE and p > first and text[p - 1] == RETURN else p
                for k in range(first, last):
                    is_blank = is_blank and (text[k] == SPACE or text[k] == TAB)
            if p >= end:
                return count, start
            for k in range(len(wanted)):
                if wanted[k] == column:
                    spans[count, k, 0], spans[count, k, 1], spans[count, k, 2] = first, last, doubled
            column += 1
            p += 1
            if text[p - 1] == NEWLINE:
                break
            if p >= end:
                return count, start
        heads[count, PLACE], heads[count, FAULT] = start, fault
        heads[count, COLUMNS] = 0 if is_blank and column == 1 else column
        count += 1
    return count, p


@njit(cache=True, nogil=True)
def first_of(byte: int, text: Array, spans: Array, out: Array) -> None:
    for k in range(spans.shape[0]):
        p, end = np.uint64(spans[k, 0]), np.uint64(spans[k, 1])
        while p < end and text[p] != byte:
            p += np.uint64(1)
        out[k] = p


@njit(cache=True, nogil=True)
def strip(text: Array, start: Array, stop: Array) -> None:
    for k in range(start.shape[0]):
        begin, end = start[k], stop[k]
        while begin < end and (text[begin] == SPACE or text[begin] == TAB):
            begin += 1
        while begin < end and (text[end - 1] == SPACE or text[end - 1] == TAB):
            end -= 1
        start[k], stop[k] = begin, end
