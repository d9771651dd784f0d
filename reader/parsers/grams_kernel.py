"""The n-grams of a document, counted by the feature that each is hashed to."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from reader.parsers.characters import BLANK, WORD, Characters
from reader.parsers.murmur_kernel import murmur
from reader.parsers.utf8_kernel import code_at, put
from storage.csr import Array

# Analyzers.
WORDS, CHARS, CHARS_OF_WORDS = 0, 1, 2

KEY, COUNT, FIRST_BEGIN, FIRST_END = range(4)
SPACE = 32


class Grams(NamedTuple):
    """Which n-grams: `analyzer` is WORDS, CHARS or CHARS_OF_WORDS, n goes from least to most; how they are hashed."""

    analyzer: int
    least: int
    most: int
    n_features: int
    alternate_sign: bool
    lowercase: bool


class Table(NamedTuple):
    """Features of a document while it is read.

    slots    (s, 4) int32, s a power of two, KEY -1 everywhere between documents: feature, sum, first n-gram in `low`
    touched  (s // 2 + 1,) int64: feature << 32 | slot, of the slots in use
    low      (3 * longest document + 16,) uint8: the document as its n-grams are cut out of it
    starts   (most,) int64: where the last words, or characters, begin in `low`, by their number modulo `most`
    """

    slots: Array
    touched: Array
    low: Array
    starts: Array


# add_words, add_chars and add_chars_of_words read the document text[p:end], valid UTF-8, and count each of its n-grams
# in slots 0 to mask, mask + 1 being a power of two; what n-grams are says text_kernel. They return how many slots are
# in use then, and whether these were enough: no more than half of them are used.


@njit(cache=True, nogil=True)
def add(begin: int, end: int, grams: Grams, low: Array, slots: Array, mask: int, used: int) -> int:
    """Count the n-gram low[begin:end]; how many slots are in use then, -1 if there is none for it."""
    h = murmur(low, begin, end, 0)
    feature = -h if h < 0 else h
    n = grams.n_features
    feature = feature & (n - 1) if n & (n - 1) == 0 else feature % n
    # Features stand nearly in their order, which is that of their slots.
    slot = np.int64(feature * ((mask + 1) / n))
    while slots[slot, KEY] != feature:
        if slots[slot, KEY] < 0:
            if 2 * used > mask:
                return -1
            slots[slot, KEY], slots[slot, COUNT] = feature, 0
            slots[slot, FIRST_BEGIN], slots[slot, FIRST_END] = begin, end
            used += 1
            break
        slot = (slot + 1) & mask
    slots[slot, COUNT] += -1 if h < 0 and grams.alternate_sign else 1
    return used


@njit(cache=True, nogil=True)
def collect(slots: Array, mask: int, touched: Array) -> None:
    """The features in the table, ascending, in touched[0], touched[1] ..."""
    used = 0
    for slot in range(mask + 1):
        feature = np.int64(slots[slot, KEY])
        if feature >= 0:
            place = used
            key = feature << 32 | slot
            while place > 0 and touched[place - 1] > key:
                touched[place] = touched[place - 1]
                place -= 1
            touched[place] = key
            used += 1


@njit(cache=True, nogil=True)
def add_words(
    text: Array, p: int, end: int, grams: Grams, chars: Characters, table: Table, mask: int
) -> tuple[int, bool]:
    """Count n-grams of words; how many slots are in use then, and whether there were enough."""
    slots, low, starts = table.slots, table.low, table.starts
    kind, lower = chars
    used, words = 0, 0
    last = 0  # words modulo grams.most
    begin = q = length = 0  # of the word: its place, its end, and its characters
    while True:
        while p < end and text[p] < 0x80:
            code = np.int64(text[p])
            if kind[code] != WORD:
                break
            low[q] = lower[code] if grams.lowercase else code
            q += 1
            length += 1
            p += 1
        following = p + 1
        if p < end and text[p] >= 0x80:
            code, following = code_at(text, p)
            if grams.lowercase:
                code = np.int64(lower[code])
            if kind[code] == WORD:
                q = put(low, q, code)
                length += 1
                p = following
                continue
        if length > 1:
            starts[last] = begin
            words += 1
            for n in range(grams.least, min(grams.most, words) + 1):
                first = last - n + 1
                now = add(starts[first + grams.most if first < 0 else first], q, grams, low, slots, mask, used)
                if now < 0:
                    return used, False
                used = now
            last = last + 1 if last + 1 < grams.most else 0
            low[q] = SPACE
            begin = q + 1
        q, length = begin, 0
        if p >= end:
            return used, True
        p = following


@njit(cache=True, nogil=True)
def add_chars(
    text: Array, p: int, end: int, grams: Grams, chars: Characters, table: Table, mask: int
) -> tuple[int, bool]:
    """Count n-grams of characters; how many slots are in use then, and whether there were enough."""
    slots, low, starts = table.slots, table.low, table.starts
    kind, lower = chars
    used = q = count = 0
    while p < end:
        code, p = code_at(text, p)
        if grams.lowercase:
            code = np.int64(lower[code])
        if kind[code] == BLANK and p < end:
            following, behind = code_at(text, p)
            if kind[following] == BLANK:
                code = SPACE
                while p < end and kind[following] == BLANK:
                    p = behind
                    if p < end:
                        following, behind = code_at(text, p)
        starts[count % grams.most] = q
        count += 1
        q = put(low, q, code)
        for n in range(grams.least, min(grams.most, count) + 1):
            now = add(starts[(count - n) % grams.most], q, grams, low, slots, mask, used)
            if now < 0:
                return used, False
            used = now
    return used, True


@njit(cache=True, nogil=True)
def add_chars_of_words(
    text: Array, p: int, end: int, grams: Grams, chars: Characters, table: Table, mask: int
) -> tuple[int, bool]:
    """Count n-grams of the characters of each word; how many slots are in use then, and whether there were enough."""
    slots, low, starts = table.slots, table.low, table.starts
    kind, lower = chars
    used = q = begin = count = 0  # count: characters of the word so far, the space before it, too
    while True:
        code: Any = SPACE
        following, is_blank = p, True
        if p < end:
            code, following = code_at(text, p)
            if grams.lowercase:
                code = np.int64(lower[code])
            is_blank = kind[code] == BLANK
        if is_blank and count == 0:
            if p >= end:
                return used, True
            p = following
            continue
        if count == 0:
            # The space before the word is a character, too; the word's first comes in the next turn.
            begin, code, following = q, SPACE, p
        starts[count % grams.most] = q
        count += 1
        q = put(low, q, SPACE if is_blank else code)
        longest = count - 1 if is_blank else count
        for n in range(grams.least, min(grams.most, longest) + 1):
            now = add(starts[(count - n) % grams.most], q, grams, low, slots, mask, used)
            if now < 0:
                return used, False
            used = now
        if is_blank:
            if grams.most >= count:
                now = add(begin, q, grams, low, slots, mask, used)
                if now < 0:
                    return used, False
                used = now
            count = 0
        p = following
