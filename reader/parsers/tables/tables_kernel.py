"""Inner loops of tables: they split lines into fields, read numbers, map words to features, and write rows."""

from typing import Any

import numpy as np

from streamsvm.reader.parsers.murmur_kernel import murmur
from streamsvm.reader.parsers.number_kernel import MINUS, exact_double, round_value, scan_number
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

NEWLINE, RETURN, QUOTE, SPACE, TAB = 10, 13, 34, 32, 9
LOWER = 32  # the bit of lower case
MOST_SHORT = 7  # most bytes of a short field: its key of 8 bytes has these bytes and their number
TRUE, FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)

# skip_blank(text, begin, end, delimiter) -> (lines, place)
# Skips blank lines of text[begin:end], which ends with a line feed. A line is not blank if it has the delimiter (-1:
# none), even if that is a tab: it may be a row of missing values. place: offset of the first line that is not blank.
#
# split_lines(text, begin, end, delimiter, start (r, c) int32, stop (r, c) int32) -> (rows, blank lines, place)
# Splits lines of text[begin:end], which ends with a line feed: field (delimiter field)* [CR] LF, c fields a line. A
# field is text[start:stop], without the blanks around it and without the quotes around all of it. Skips blank lines.
# place: the offset at which it stopped: `end`, behind r rows, or the beginning of a line with another number of fields,
# with quotes inside a field, or with a CR inside the line.
#
# read_table(text, start (r, c), stop (r, c), places (k,) int64, out (n, k) float64), n <= r -> number of NaN
# read_doubles(text, start (n,), stop (n,), out (n,) float64) -> number of NaN
# Read fields (read_table: those of the columns at `places`) as numbers: the nearest float32, or the nearest double. NaN
# where a field is no number, or cannot be rounded here. read_table reads "true" and "false" in any case as 1 and 0.
#
# text must have at least one byte behind each field.
#
# short_keys(text, start (n,), stop (n,), keys (n,) uint64) -> whether all fields are short; then they have equal keys
# only if they are equal.


@njit(cache=True, nogil=True)
def skip_blank(text: Array, begin: int, end: int, delimiter: int) -> tuple[int, int]:
    lines, line, p = 0, begin, begin
    while p < end and text[p] != delimiter and (text[p] == SPACE or TAB <= text[p] <= RETURN):
        p += 1
        if text[p - 1] == NEWLINE:
            lines += 1
            line = p
    return lines, line


@njit(cache=True, nogil=True)
def split_lines(text: Array, begin: int, end: int, delimiter: int, start: Array, stop: Array) -> tuple[int, int, int]:
    n_columns = start.shape[1]
    rows = blank = 0
    p = begin
    while p < end and rows < start.shape[0]:
        skipped, p = skip_blank(text, p, end, delimiter)
        blank += skipped
        if p == end:
            break
        line = p
        column = 0
        odd = False
        while True:
            while text[p] != delimiter and (text[p] == SPACE or text[p] == TAB):
                p += 1
            first = p
            if text[p] == QUOTE:
                first = p + 1
                p += 1
                while text[p] != QUOTE and text[p] != NEWLINE and text[p] != RETURN:
                    p += 1
                last = p
                odd = odd or text[p] != QUOTE
                p += text[p] == QUOTE
                while text[p] != delimiter and (text[p] == SPACE or text[p] == TAB):
                    p += 1
                while last > first and (text[last - 1] == SPACE or text[last - 1] == TAB):
                    last -= 1
                while first < last and (text[first] == SPACE or text[first] == TAB):
                    first += 1
            else:
                while text[p] != delimiter and text[p] != NEWLINE and text[p] != RETURN:
                    odd = odd or text[p] == QUOTE
                    p += 1
                last = p
                while last > first and (text[last - 1] == SPACE or text[last - 1] == TAB):
                    last -= 1
            if odd or column == n_columns:
                odd = True
                break
            start[rows, column], stop[rows, column] = first, last
            column += 1
            if text[p] != delimiter:
                break
            p += 1
        if text[p] == RETURN and text[p + 1] == NEWLINE:
            p += 1
        if odd or column != n_columns or text[p] != NEWLINE or (n_columns == 1 and stop[rows, 0] == start[rows, 0]):
            return rows, blank, line
        p += 1
        rows += 1
    return rows, blank, p


@njit(cache=True, nogil=True)
def truth(text: Array, begin: int, end: int) -> int:
    """Return 1 for "true" and 0 for "false" at text[begin:end], in letters of either case; else -1."""
    is_true = end - begin == len(TRUE)
    if not (is_true or end - begin == len(FALSE)):
        return -1
    for k in range(end - begin):
        if text[begin + k] | LOWER != (TRUE[k] if is_true else FALSE[k]):
            return -1
    return int(is_true)


@njit(cache=True, nogil=True)
def read_table(text: Array, start: Array, stop: Array, places: Array, out: Array) -> int:
    hard = 0
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            begin: Any = np.int64(start[row, places[column]])
            end: Any = np.int64(stop[row, places[column]])
            value, certain = np.float32(np.nan), False
            if begin < end:
                p, mantissa, exponent, exact = scan_number(text, begin)
                if p == end:
                    value, certain = round_value(mantissa, exponent, exact)
            known = -1 if certain else truth(text, begin, end)
            if certain:
                out[row, column] = -value if text[begin] == MINUS else value
            elif known >= 0:
                out[row, column] = known
            else:
                out[row, column] = np.nan
                hard += 1
    return hard


@njit(cache=True, nogil=True)
def read_doubles(text: Array, start: Array, stop: Array, out: Array) -> int:
    hard = 0
    for row in range(out.shape[0]):
        begin: Any = np.int64(start[row])
        value, certain = np.nan, False
        if begin < stop[row]:
            p, mantissa, exponent, exact = scan_number(text, begin)
            if p == stop[row]:
                value, certain = exact_double(mantissa, exponent, exact)
        if certain:
            out[row] = -value if text[begin] == MINUS else value
        else:
            out[row] = np.nan
            hard += 1
    return hard


@njit(cache=True, nogil=True)
def short_keys(text: Array, start: Array, stop: Array, keys: Array) -> bool:
    for k in range(len(keys)):
        if stop[k] - start[k] > MOST_SHORT:
            return False
        key = np.uint64(stop[k] - start[k])
        for p in range(start[k], stop[k]):
            key = key << np.uint64(8) | np.uint64(text[p])
        keys[k] = key
    return True


EMPTY_SLOT, UNKNOWN = -1, -1

# Fields are text[start[i]:stop[i]], text uint8, start and stop (n,) int64.
#
# find_words(text, start, stop, column, first, slots (2^k,) int32, keys (c, 3) int64, pool uint8, out (n,) int32,
#            go_on) -> row
# Open addressing: a slot holds the number of a key, or EMPTY_SLOT; key = (column, begin, end) of its word in `pool`.
# Writes out[i] = number of the key (column, field i) for rows from `first` on. Returns the first row whose word is no
# key, or n; with go_on such words are UNKNOWN instead.
#
# put_word(text, start, stop, column, number, slots): puts the number of a new key into its slot.
#
# hash_words(text, start, stop, before uint8, n_features, out (n,) int32, sign (n,) float32): hashes `before` and the
# word as one string to a feature and a sign, as sklearn.feature_extraction.FeatureHasher: MurmurHash3 with seed 0.
#
# put_rows(numbers (n, k) float32, missing (n, j) bool, words (n, m) int32, sign (n, m) float32, base, indptr (n + 1,),
#          indices, values): writes rows in CSR. Features from `base` on: k numbers, j that are 1 where `missing`, then
# words, UNKNOWN ones left out. Equal features of a row are added up, zeros are left out. indptr[0] is 0 already.


@njit(cache=True, nogil=True)
def find_words(
    text: Array,
    start: Array,
    stop: Array,
    column: int,
    first: int,
    slots: Array,
    keys: Array,
    pool: Array,
    out: Array,
    go_on: bool,
) -> int:
    mask = slots.shape[0] - 1
    for row in range(first, out.shape[0]):
        begin, length = start[row], stop[row] - start[row]
        slot = murmur(text, begin, stop[row], column) & mask
        found = UNKNOWN
        while slots[slot] != EMPTY_SLOT:
            key = slots[slot]
            if keys[key, 0] == column and keys[key, 2] - keys[key, 1] == length:
                same = True
                for j in range(length):
                    if pool[keys[key, 1] + j] != text[begin + j]:
                        same = False
                        break
                if same:
                    found = key
                    break
            slot = (slot + 1) & mask
        if found == UNKNOWN and not go_on:
            return row
        out[row] = found
    return out.shape[0]


@njit(cache=True, nogil=True)
def put_word(text: Array, start: int, stop: int, column: int, number: int, slots: Array) -> None:
    mask = slots.shape[0] - 1
    slot = murmur(text, start, stop, column) & mask
    while slots[slot] != EMPTY_SLOT:
        slot = (slot + 1) & mask
    slots[slot] = number


@njit(cache=True, nogil=True)
def hash_words(text: Array, start: Array, stop: Array, before: Array, n_features: int, out: Array, sign: Array) -> None:
    whole = np.empty(256, np.uint8)
    for row in range(out.shape[0]):
        length = before.shape[0] + stop[row] - start[row]
        if length > whole.shape[0]:
            whole = np.empty(2 * length, np.uint8)
        whole[: before.shape[0]] = before
        whole[before.shape[0] : length] = text[start[row] : stop[row]]
        h = murmur(whole, 0, length, 0)
        out[row] = abs(h) % n_features
        sign[row] = 1.0 if h >= 0 else -1.0


@njit(cache=True, nogil=True)
def put_rows(
    numbers: Array, missing: Array, words: Array, sign: Array, base: int, indptr: Array, indices: Array, values: Array
) -> None:
    place = 0
    beyond = base + numbers.shape[1] + missing.shape[1]
    for row in range(indptr.shape[0] - 1):
        for j in range(numbers.shape[1]):
            if numbers[row, j] != 0.0:
                indices[place], values[place] = base + j, numbers[row, j]
                place += 1
        for j in range(missing.shape[1]):
            if missing[row, j]:
                indices[place], values[place] = base + numbers.shape[1] + j, 1.0
                place += 1
        first = place
        for j in range(words.shape[1]):
            if words[row, j] == UNKNOWN:
                continue
            feature = beyond + words[row, j]
            k = place
            while k > first and indices[k - 1] > feature:
                k -= 1
            if k > first and indices[k - 1] == feature:
                values[k - 1] += sign[row, j]
                continue
            for moved in range(place, k, -1):
                indices[moved], values[moved] = indices[moved - 1], values[moved - 1]
            indices[k], values[k] = feature, sign[row, j]
            place += 1
        end = first
        for k in range(first, place):
            if values[k] != 0.0:
                indices[end], values[end] = indices[k], values[k]
                end += 1
        place = end
        indptr[row + 1] = place
