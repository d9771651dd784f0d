"""The inner loop that reads LIBSVM text."""

from typing import Any

import numpy as np

from streamsvm.reader.parsers.number_kernel import (
    COLON,
    EXACT_MANTISSA,
    EXACT_POWER,
    FULL_MANTISSA,
    MINUS,
    POINT,
    POWERS,
    TENS,
    ZERO,
    exact_double,
    leading_digits,
    round_value,
    scan_number,
)
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Return values of parse_lines.
DONE, FULL, FAULT = 0, 1, 2
# Indices of the entries of its array `state`.
POSITION, ROWS, PAIRS, HARD, LINES, BLANK, COMMENT, ZEROS, EMPTY, MAX_INDEX, MIN_INDEX, TOKEN, PREVIOUS = range(13)
STATE_SIZE = 13
# Kinds of hard tokens: numbers that the kernel cannot round, so that the caller does.
HARD_LABEL, HARD_VALUE, HARD_WEIGHT = 0, 1, 2

SPACE, TAB, NEWLINE, RETURN, SHARP = 32, 9, 10, 13, 35
INDEX_LIMIT = 2**31

# parse_lines reads the lines of text[state[POSITION]:end], which must end with a line feed:
#
#   line = [label [":" weight] (blank+ index ":" value)*] blank* ["#" anything] [CR] LF      blank = space or tab
#
# label, weight and value are numbers (number_kernel), index is digits; all ASCII without NUL and without a CR that no
# LF follows; a blank may also stand before the label. A weight has no minus sign; it is there only if `weight` has room
# for it, and 1 if it is missing.
#
# text (n,) uint8; max_line: most bytes in a line without its LF; lowest: smallest index allowed (0 or 1); features:
# every index is below it (<= 2^31). Changed in place: label (r,) float64; weight (r,) float64, or (0,) if rows have no
# weights; row_end (r,) int64, the pairs up to the end of each row; indices (p,) int32 and values (p,) float32; hard
# (h, 4) int64; state (STATE_SIZE,) int64. p must be a quarter of the bytes to read or more: a pair takes four bytes.
# In `state`, POSITION moves to the end of the last line read, and ROWS, PAIRS and HARD count what the arrays hold.
# LINES, BLANK, COMMENT, ZEROS (pairs left out because their value is zero as float32) and EMPTY (rows without any pair)
# are added to; MAX_INDEX and MIN_INDEX are over every index read, that of a zero too.
#
# Returns DONE at `end`; FULL when `label` or `hard` has no room for the next line, of which nothing is stored then;
# FAULT at the first line that is too long or does not fit the grammar. TOKEN is the start of the bad token (or byte),
# PREVIOUS the index before it in its row, lowest - 1 for the first pair, lowest - 2 for the label, lowest - 3 for the
# weight; the caller finds out the fault. HARD then counts the tokens of the bad line, too.
#
# Numbers are correctly rounded: label, weight = float(token), value = float32(float(token)). The caller rounds those
# that number_kernel cannot: hard[k] = (kind, index in label, weight or values, start, end of the token).


@njit(cache=True, nogil=True)
def ends_token(c: Any) -> bool:
    """Return whether the byte `c` may follow a token."""
    return c in (SPACE, NEWLINE, TAB, RETURN, SHARP)


@njit(cache=True, nogil=True)
def skip_comment(text: Array, begin: int) -> int:
    """Return the offset, from `begin` on, of a line feed, NUL, byte >= 0x80 or carriage return without line feed."""
    p = begin
    while True:
        c = text[p]
        if c == NEWLINE or c == 0 or c >= 128 or (c == RETURN and text[p + 1] != NEWLINE):
            return p
        p += 1


@njit(cache=True, nogil=True)
def put_hard(hard: Array, count: int, kind: int, place: int, begin: int, end: int) -> int:
    hard[count, 0], hard[count, 1], hard[count, 2], hard[count, 3] = kind, place, begin, end
    return count + 1


@njit(cache=True, nogil=True)
def parse_lines(
    text: Array,
    end: int,
    max_line: int,
    lowest: int,
    features: int,
    label: Array,
    weight: Array,
    row_end: Array,
    indices: Array,
    values: Array,
    hard: Array,
    state: Array,
) -> int:
    p = state[POSITION]
    rows = state[ROWS]
    pairs = state[PAIRS]
    n_hard = state[HARD]
    while p < end:
        line = p
        pairs_before, hard_before = pairs, n_hard
        zeros = 0
        while text[p] == SPACE or text[p] == TAB:
            p += 1
        token = p
        previous: Any = lowest - 2
        c = np.int64(text[p])
        fault = full = False
        is_row = not (c in (NEWLINE, SHARP) or (c == RETURN and text[p + 1] == NEWLINE))
        least: Any = INDEX_LIMIT
        mantissa: Any = np.int64(0)
        value: Any = np.float32(0.0)
        if is_row:
            if rows == label.shape[0] or n_hard + 2 > hard.shape[0]:  # room for a label and a weight
                full = fault = True
            else:
                p, mantissa, exponent, exact = scan_number(text, token)
                has_weight = p >= 0 and text[p] == COLON and weight.shape[0] > 0
                if p < 0 or not (has_weight or ends_token(text[p])):
                    fault = True
                else:
                    number, certain = exact_double(mantissa, exponent, exact)
                    if not certain:
                        n_hard = put_hard(hard, n_hard, HARD_LABEL, rows, token, p)
                    label[rows] = -number if text[token] == MINUS else number
                    previous = lowest - 1
                if weight.shape[0] > 0:
                    weight[rows] = 1.0
                if has_weight and not full:
                    first = p + 1
                    p, mantissa, exponent, exact = scan_number(text, first)
                    if p < 0 or not ends_token(text[p]) or text[first] == MINUS:
                        token = first
                        previous = lowest - 3
                        fault = True
                    else:
                        weight[rows], certain = exact_double(mantissa, exponent, exact)
                        if not certain:
                            n_hard = put_hard(hard, n_hard, HARD_WEIGHT, rows, first, p)
        # Each iteration reads a pair.
        while not fault:
            while text[p] == SPACE or text[p] == TAB:
                p += 1
            token = p
            index, digits = leading_digits(text, p)
            if digits == 0:
                break
            p += digits
            c = np.int64(text[p])
            while ZERO <= c < COLON and index < INDEX_LIMIT:
                index = index * 10 + (c - ZERO)
                p += 1
                c = np.int64(text[p])
            if c != COLON or index <= previous or index >= features:
                fault = True
                break
            p += 1
            first = p
            c = np.int64(text[p])
            negative = c == MINUS
            if negative:
                p += 1
                c = np.int64(text[p])
            mantissa = np.int64(0)
            begin = p
            while ZERO <= c < COLON and mantissa < FULL_MANTISSA:
                mantissa = mantissa * 10 + (c - ZERO)
                p += 1
                c = np.int64(text[p])
            digits = p - begin
            places: Any = np.int64(0)
            if c == POINT:
                p += 1
                begin = p
                count: Any = 8
                while count == 8 and mantissa < TENS[8]:
                    part, count = leading_digits(text, p)
                    mantissa = mantissa * TENS[count] + part
                    p += count
                c = np.int64(text[p])
                places = p - begin
            if ends_token(c) and digits + places > 0 and mantissa < EXACT_MANTISSA and places <= EXACT_POWER:
                value = np.float32(np.float64(mantissa) / POWERS[places])
            else:
                p, mantissa, exponent, exact = scan_number(text, first)
                if p < 0 or not ends_token(text[p]):
                    fault = True
                    break
                value, certain = round_value(mantissa, exponent, exact)
                if not certain:
                    if n_hard == hard.shape[0]:
                        full = fault = True
                        break
                    n_hard = put_hard(hard, n_hard, HARD_VALUE, pairs, first, p)
                    value = np.float32(1.0)  # any but zero, which would be left out
            indices[pairs] = index
            values[pairs] = -value if negative else value
            pairs += value != 0.0
            zeros += value == 0.0
            least = min(least, index)
            previous = index
        if not fault:
            if text[p] == SHARP:
                p = skip_comment(text, p)
                token = p
            if text[p] == RETURN and text[p + 1] == NEWLINE:
                p += 1
            if p - line > max_line or text[p] != NEWLINE:
                fault = True
        if full:
            state[PAIRS], state[HARD] = pairs_before, hard_before
            return FULL
        if fault:
            state[HARD], state[TOKEN], state[PREVIOUS] = n_hard, token, previous
            return FAULT
        p += 1
        state[LINES] += 1
        if is_row:
            row_end[rows] = pairs
            rows += 1
            state[ROWS] = rows
            state[PAIRS] = pairs
            state[ZEROS] += zeros
            if least < INDEX_LIMIT:
                state[MAX_INDEX] = max(state[MAX_INDEX], previous)
                state[MIN_INDEX] = min(state[MIN_INDEX], least)
            else:
                state[EMPTY] += 1
        elif c == SHARP:
            state[COMMENT] += 1
        else:
            state[BLANK] += 1
        state[HARD] = n_hard
        state[POSITION] = p
    return DONE
