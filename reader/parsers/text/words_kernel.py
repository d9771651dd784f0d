"""The inner loop that hashes n-grams of words or characters of documents to features."""

from typing import NamedTuple

from streamsvm.reader.parsers.murmur_kernel import murmur_within
from streamsvm.reader.parsers.text.grams_kernel import (
    CHARS,
    COUNT,
    FIRST_BEGIN,
    FIRST_END,
    KEY,
    WORDS,
    Characters,
    Grams,
    Table,
    add_chars,
    add_chars_of_words,
    add_words,
    collect,
)
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Return values of hash_documents.
DONE, FULL, SMALL_TABLE = 0, 1, 2
# Indices of the entries of the array `state`.
DOCUMENT, ROWS, PAIRS, NOTES, NOTE_BYTES = range(5)
STATE_SIZE = 5

NOTED_BYTES = 97  # most bytes of an n-gram in a note
_FEWEST_SLOTS = 64


class Output(NamedTuple):
    """Rows, and notes: a note is the first n-gram that was hashed to a feature, at most NOTED_BYTES of it.

    row_end (r,) int64: the number of values up to the end of each row; indices (p,) int32, values (p,) float32
    seen (n_features + 7 >> 3,) uint8: a bit for each feature that has a note; (0,): no notes are made
    noted (k,) int32: the feature, or ~feature if its n-gram counts -1; note_end (k,) int64 and note_text (b,) uint8
    """

    row_end: Array
    indices: Array
    values: Array
    seen: Array
    noted: Array
    note_end: Array
    note_text: Array


# hash_documents makes a row of each document text[begin[k]:end[k]], from k = state[DOCUMENT] on, as scikit-learn's
# HashingVectorizer(norm=None) does, to the bit:
#
#   document -> lower case -> n-grams -> h = MurmurHash3 of the UTF-8 bytes, 32 bits, seed 0, signed
#   feature = |h| mod n_features counts 1, or with alternate_sign -1 if h < 0; equal features are added up
#
#   WORDS            n-grams of words, joined by a space; a word is a maximal run of at least two word characters
#   CHARS            n-grams of characters, where a run of two or more blanks is one space
#   CHARS_OF_WORDS   n-grams of characters of each word, which stands between blanks, with a space on either side; a
#                    word of n characters or fewer, spaces included, gives only itself, once, for the least such n
#
# text (n,) uint8, valid UTF-8; with lowercase, no code point may be hard (`Characters`). Changed in place: table, out,
# state (STATE_SIZE,) int64: ROWS, PAIRS, NOTES and NOTE_BYTES count the entries of `out`. Features of a row increase;
# sums that are 0 are left out.
#
# Returns DONE behind the last document; FULL if `out`, SMALL_TABLE if the table has no room for the next document, of
# which nothing is stored then.
#
# Source: A. Appleby, MurmurHash3 (MurmurHash3_x86_32), public domain; Weinberger et al., Feature hashing for large
# scale multitask learning, ICML 2009.


@njit(cache=True, nogil=True)
def slots_for(length: int, grams: Grams) -> int:
    """Return slots that mostly suffice for a document of `length` bytes: a new English word comes every eight bytes."""
    units = length // 8 if grams.analyzer == WORDS else length
    wanted = 2 * min(units * (grams.most - grams.least + 1), grams.n_features)
    slots = _FEWEST_SLOTS
    while slots < wanted:
        slots *= 2
    return slots


@njit(cache=True, nogil=True)
def add_document(
    text: Array, begin: int, end: int, grams: Grams, chars: Characters, table: Table, slots: int
) -> tuple[int, bool]:
    """Count a document's n-grams; return the number of features in `touched`, and whether `slots` slots sufficed."""
    if grams.analyzer == WORDS:
        enough = add_words(text, begin, end, grams, chars, table, slots - 1)
    elif grams.analyzer == CHARS:
        enough = add_chars(text, begin, end, grams, chars, table, slots - 1)
    else:
        enough = add_chars_of_words(text, begin, end, grams, chars, table, slots - 1)
    return collect(table, slots - 1), enough


@njit(cache=True, nogil=True)
def clear(table: Table, used: int) -> None:
    """Make the table ready for the next document."""
    for place in table.touched[:used]:
        table.slots[4 * (place & 0xFFFFFFFF) + KEY] = -1


@njit(cache=True, nogil=True)
def has_room(table: Table, used: int, out: Output, state: Array) -> bool:
    """Return whether `out` has room for the table's features, and for notes of those that have none yet."""
    if state[PAIRS] + used > len(out.indices) or state[ROWS] == len(out.row_end):
        return False
    notes, size = state[NOTES], state[NOTE_BYTES]
    if notes + used <= len(out.noted) and size + NOTED_BYTES * used <= len(out.note_text):
        return True
    for place in table.touched[:used]:
        feature = place >> 32
        if len(out.seen) and not out.seen[feature >> 3] >> (feature & 7) & 1:
            slot = 4 * (place & 0xFFFFFFFF)
            notes += 1
            size += min(NOTED_BYTES, table.slots[slot + FIRST_END] - table.slots[slot + FIRST_BEGIN])
    return notes <= len(out.noted) and size <= len(out.note_text)


@njit(cache=True, nogil=True)
def note(feature: int, slot: int, table: Table, out: Output, state: Array) -> None:
    """Write the first n-gram of a feature, which is in `slot`, to the notes in `out`."""
    begin, end = table.slots[slot + FIRST_BEGIN], table.slots[slot + FIRST_END]
    k, q = state[NOTES], state[NOTE_BYTES]
    out.noted[k] = ~feature if murmur_within(table.low, begin, end) < 0 else feature
    for p in range(begin, min(end, begin + NOTED_BYTES)):
        out.note_text[q] = table.low[p]
        q += 1
    out.note_end[k] = q
    state[NOTES], state[NOTE_BYTES] = k + 1, q
    out.seen[feature >> 3] |= 1 << (feature & 7)


@njit(cache=True, nogil=True)
def give_row(table: Table, used: int, out: Output, state: Array) -> None:
    """Write the features of a document, which `collect` has sorted, to `out` as a row."""
    pairs = state[PAIRS]
    for place in table.touched[:used]:
        feature, slot = place >> 32, 4 * (place & 0xFFFFFFFF)
        if len(out.seen) and not out.seen[feature >> 3] >> (feature & 7) & 1:
            note(feature, slot, table, out, state)
        if table.slots[slot + COUNT] != 0:
            out.indices[pairs], out.values[pairs] = feature, table.slots[slot + COUNT]
            pairs += 1
    state[PAIRS] = pairs
    out.row_end[state[ROWS]] = pairs
    state[ROWS] += 1


@njit(cache=True, nogil=True)
def hash_documents(
    text: Array, begin: Array, end: Array, grams: Grams, chars: Characters, table: Table, out: Output, state: Array
) -> int:
    while state[DOCUMENT] < len(begin):
        first, last = begin[state[DOCUMENT]], end[state[DOCUMENT]]
        slots, used, enough = slots_for(last - first, grams), 0, False
        while not enough:
            if 4 * slots > len(table.slots):
                return SMALL_TABLE
            used, enough = add_document(text, first, last, grams, chars, table, slots)
            if not enough:
                clear(table, used)
                slots *= 2
        fits = has_room(table, used, out, state)
        if fits:
            give_row(table, used, out, state)
            state[DOCUMENT] += 1
        clear(table, used)
        if not fits:
            return FULL
    return DONE
