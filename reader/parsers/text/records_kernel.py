"""The inner loop that finds columns of text in CSV and TSV."""

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
# A field in quotes may have delimiters and line feeds in it; in one that does not begin with a quote, it is a byte.
#
# text (n,) uint8; wanted (w,) int64: numbers of columns.
# Changed in place: heads (r, 3) int64: where the record begins, its columns, 0 if it is blank, and where a quote is
# closed before the end of its field, else -1; spans (r, w, 3) int64: begin and end of each wanted field without its
# quotes, and whether it has quotes written twice. Of a column that there is not, the span is empty.
#
# Returns how many records that are, and where the next one begins: the arrays are full, or it is not whole.


@njit(cache=True, nogil=True)
def field_end(text: Array, p: int, end: int, delimiter: int) -> int:
    """The first delimiter or line feed from p on, or `end`."""
    while p < end and text[p] != delimiter and text[p] != NEWLINE:
        p += 1
    return p


@njit(cache=True, nogil=True)
def quote_end(text: Array, p: int, end: int) -> tuple[int, bool]:
    """The quote that closes a field which begins at p, or `end`; whether there are quotes written twice before it."""
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
