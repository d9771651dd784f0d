"""Inner loops that read FASTA, and columns of strings of bases: they pack letters into words of 2 bits a base."""

from typing import Any

import numpy as np

from streamsvm.reader.parsers.number_kernel import MINUS, exact_double, scan_number
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import BASES_A_WORD, Array

# Return values of pack_lines. Those from SHORT on are faults.
DONE, FULL, HARD_LABEL = 0, 1, 2
SHORT, EMPTY, LONG, NO_HEADER, NOT_A_BASE, BAD_BYTE, LABEL_MISSING, BAD_LABEL, LINE_TOO_LONG = range(3, 12)
# Indices of the entries of its array `state`.
(
    POSITION, LINES, BLANK, UNKNOWN, ROWS, RECORD, HEADER_LINE, LETTERS, LENGTH, WORD, MASK, PLACE, TOKEN, LABELS,
    MAX_LETTERS, MAX_LINE,
) = range(16)  # fmt: skip
STATE_SIZE = 16
# RECORD, what the next line belongs to: no record, the begun record, a rejected record. PLAIN: each line is a record.
BEFORE, OPEN, LEFT_OUT, PLAIN = 0, 1, 2, 3
# Values of LABELS. WANTED: a label that is missing, or no number, becomes NaN. NUMBERS: every header needs a number.
# TEXTS: every header needs a label, which is kept as text.
WANTED, NUMBERS, TEXTS = 0, 1, 2

BASES = "ACGT"
UNKNOWN_LETTERS = "NRYSWKMBDHV"
MOST_LABEL_BYTES = 256
UNKNOWN_BASE, BLANK_BYTE, END_BYTE, NO_BASE, NO_TEXT = 4, 5, 6, 7, 8
NEWLINE, RETURN, HEADER, EQUALS = 10, 13, 62, 61


def _codes() -> Array:
    code = np.full(256, NO_BASE, np.uint8)
    code[128:] = code[0] = NO_TEXT
    code[[32, 9]] = BLANK_BYTE
    code[[NEWLINE, RETURN]] = END_BYTE
    for letter in UNKNOWN_LETTERS + UNKNOWN_LETTERS.lower():
        code[ord(letter)] = UNKNOWN_BASE
    for number, base in enumerate(BASES):
        code[[ord(base), ord(base.lower())]] = number
    return code


CODES = _codes()
LABEL = np.frombuffer(b"label=", np.uint8)

# pack_lines reads the lines of text[state[POSITION]:end], which must end with a line feed:
#
#   record = ">" anything [CR] LF (letter* blank* [CR] LF)*     blank = space or tab
#
# A letter is a base (ACGT), or an IUPAC letter that stands for several (such as N), in upper or lower case. The label
# in a header is what follows "label=", up to a blank, comma, semicolon or bar. The byte before "label=" is no letter,
# digit or underscore. All records have as many letters as the first. With state[RECORD] PLAIN there are no headers, and
# each line that is not blank is a record without a label.
#
# A row becomes ceil(letters / 16) words: base k of a word has bits 2k and 2k + 1 of `words`, A C G T = 0 1 2 3, and 0
# for an unknown base; the word's value is 1 + m, where bit k of m says that base k is unknown.
#
# text (n,) uint8; code (256,): CODES. Changed in place: label (r,) float64; token (r, 2) int64, begin and end of each
# label in `text`; words (w,) int32; values (w,) float32; state (STATE_SIZE,) int64. w must be at least PLACE + r and a
# sixteenth of the bytes to read.
# In `state`, POSITION moves to the end of the last line read; LINES, BLANK (lines) and UNKNOWN (letters) are added to.
# The arrays hold ROWS complete records, and LETTERS letters of the next one, the last of them in WORD and MASK; PLACE
# counts all words. The next record's header was line HEADER_LINE, from 1. LENGTH: letters of each record, -1 before the
# first.
#
# Returns DONE at `end`; FULL when r rows are complete; SHORT or EMPTY for a fault of the record that ends before
# POSITION; another fault at state[TOKEN], in the line at POSITION; or HARD_LABEL for a label in token[ROWS] that the
# caller has to read: a number that cannot be rounded here, or a string that is long or not ASCII.


@njit(cache=True, nogil=True)
def begin_record(state: Array, words_a_row: int) -> None:
    state[LETTERS] = state[WORD] = state[MASK] = 0
    state[PLACE] = state[ROWS] * words_a_row
    state[HEADER_LINE] = state[LINES] + 1


@njit(cache=True, nogil=True)
def words_of(letters: int) -> int:
    return max(0, (letters + BASES_A_WORD - 1) // BASES_A_WORD)


@njit(cache=True, nogil=True)
def put_word(words: Array, values: Array, place: int, word: int, mask: int) -> int:
    words[place] = np.int32(np.uint32(word))
    values[place] = 1.0 + mask
    return place + 1


@njit(cache=True, nogil=True)
def close_record(words: Array, values: Array, state: Array) -> int:
    """End the open record; return DONE if it is a row now, or if no record was open, else SHORT or EMPTY."""
    was, state[RECORD] = state[RECORD], BEFORE
    if was != OPEN:
        return DONE
    letters = state[LETTERS]
    if letters == 0:
        return EMPTY
    if letters != state[LENGTH] and state[LENGTH] >= 0:
        return SHORT
    if letters % BASES_A_WORD:
        state[PLACE] = put_word(words, values, state[PLACE], state[WORD], state[MASK])
    state[LENGTH] = letters
    state[ROWS] += 1
    state[LETTERS] = 0
    return DONE


@njit(cache=True, nogil=True)
def ends_label(c: Any) -> bool:
    return c in (32, 9, 44, 59, 124, NEWLINE, RETURN)


@njit(cache=True, nogil=True)
def is_of_name(c: Any) -> bool:
    return 48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c == 95


@njit(cache=True, nogil=True)
def read_header(text: Array, begin: int, label: Array, token: Array, state: Array) -> tuple[int, int]:
    """Read the header at `begin`, and write its label to its row; return (outcome, offset of the line feed)."""
    row = state[ROWS]
    label[row] = np.nan
    p = begin
    first = -1
    while text[p] != NEWLINE:
        c = text[p]
        if c == 0 or (c == RETURN and text[p + 1] != NEWLINE):
            state[TOKEN] = p
            return BAD_BYTE, p
        if c == EQUALS and first < 0 and p - begin >= LABEL.shape[0]:
            k = p - LABEL.shape[0] + 1
            same = not is_of_name(text[k - 1])
            for j in range(LABEL.shape[0]):
                same = same and text[k + j] == LABEL[j]
            if same:
                first = p + 1
        p += 1
    if p - begin > state[MAX_LINE]:
        state[TOKEN] = begin
        return LINE_TOO_LONG, p
    if first < 0 or ends_label(text[first]):
        state[TOKEN] = begin if first < 0 else first
        return DONE if state[LABELS] == WANTED else LABEL_MISSING, p
    last = first
    while not ends_label(text[last]):
        last += 1
    token[row, 0], token[row, 1] = first, last
    state[TOKEN] = first
    if state[LABELS] == TEXTS:
        is_plain = last - first <= MOST_LABEL_BYTES
        for k in range(first, last):
            is_plain = is_plain and text[k] < 128
        if not is_plain:
            return HARD_LABEL, p
    else:
        stop, mantissa, exponent, exact = scan_number(text, first)
        if stop != last:
            return DONE if state[LABELS] == WANTED else BAD_LABEL, p
        number, certain = exact_double(mantissa, exponent, exact)
        if not certain:
            return HARD_LABEL, p
        label[row] = -number if text[first] == MINUS else number
    return DONE, p


@njit(cache=True, nogil=True)
def pack_lines(
    text: Array, end: int, code: Array, label: Array, token: Array, words: Array, values: Array, state: Array
) -> int:
    p = state[POSITION]
    while p < end:
        line = p
        if text[p] == HEADER and state[RECORD] != PLAIN:
            outcome = close_record(words, values, state)
            if outcome == DONE and state[ROWS] == label.shape[0]:
                outcome = FULL
            if outcome != DONE:
                return outcome
            begin_record(state, words_of(state[LENGTH]))
            outcome, p = read_header(text, line, label, token, state)
            if outcome != DONE:
                return outcome
            state[RECORD] = OPEN
        elif state[RECORD] == LEFT_OUT:
            while text[p] != NEWLINE:
                p += 1
        else:
            is_plain = state[RECORD] == PLAIN
            if is_plain:
                if state[ROWS] == label.shape[0]:
                    return FULL
                begin_record(state, words_of(state[LENGTH]))
            most = state[LENGTH] if state[LENGTH] >= 0 else state[MAX_LETTERS]
            letters, place = state[LETTERS], state[PLACE]
            word, mask = state[WORD], state[MASK]
            before = letters
            unknown = 0
            k = code[text[p]]
            if state[RECORD] == BEFORE and (k <= UNKNOWN_BASE or k == NO_BASE):
                state[TOKEN] = p
                return NO_HEADER
            while k <= UNKNOWN_BASE:
                if letters == most:
                    state[TOKEN] = p
                    return LONG
                bit = letters % BASES_A_WORD
                if k < UNKNOWN_BASE:
                    word |= np.int64(k) << (2 * bit)
                else:
                    mask |= 1 << bit
                    unknown += 1
                letters += 1
                if bit == BASES_A_WORD - 1:
                    place = put_word(words, values, place, word, mask)
                    word = mask = 0
                p += 1
                k = code[text[p]]
            while code[text[p]] == BLANK_BYTE:
                p += 1
            if text[p] == RETURN and text[p + 1] == NEWLINE:
                p += 1
            if text[p] != NEWLINE:
                state[TOKEN] = p
                return BAD_BYTE if code[text[p]] in (NO_TEXT, END_BYTE) else NOT_A_BASE
            if p - line > state[MAX_LINE]:
                state[TOKEN] = line
                return LINE_TOO_LONG
            state[LETTERS], state[PLACE], state[WORD], state[MASK] = letters, place, word, mask
            state[UNKNOWN] += unknown
            state[BLANK] += letters == before
            if is_plain and letters > 0:
                state[RECORD] = OPEN
                state[POSITION] = p
                label[state[ROWS]] = np.nan
                outcome = close_record(words, values, state)
                state[RECORD] = PLAIN
                if outcome != DONE:
                    return outcome
        p += 1
        state[LINES] += 1
        state[POSITION] = p
    return DONE


# are_strings(text, start, stop, code, length, out (n,) bool): out[i] says whether text[start[i]:stop[i]] is `length`
# letters.
# pack_strings(text, start, stop, code, words, values): packs such strings into words and values, see above.
#
# text (n,) uint8; start and stop (r,) integers; code (256,): CODES.


@njit(cache=True, nogil=True)
def are_strings(text: Array, start: Array, stop: Array, code: Array, length: int, out: Array) -> None:
    for row in range(out.shape[0]):
        fits = stop[row] - start[row] == length and length > 0
        p = start[row]
        while fits and p < stop[row]:
            fits = code[text[p]] <= UNKNOWN_BASE
            p += 1
        out[row] = fits


@njit(cache=True, nogil=True)
def pack_strings(text: Array, start: Array, stop: Array, code: Array, words: Array, values: Array) -> None:
    place = 0
    for row in range(start.shape[0]):
        for begin in range(start[row], stop[row], BASES_A_WORD):
            word: Any = np.int64(0)
            mask = 0
            for bit in range(min(BASES_A_WORD, stop[row] - begin)):
                k = np.int64(code[text[begin + bit]])
                if k < UNKNOWN_BASE:
                    word |= k << (2 * bit)
                else:
                    mask |= 1 << bit
            place = put_word(words, values, place, word, mask)
