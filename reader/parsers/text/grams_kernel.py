"""Counts the n-grams of a document by the feature that each is hashed to; knows the properties of code points."""

import re
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.parsers.murmur_kernel import murmur_within
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import lowest_bit
from streamsvm.storage.rows.csr import Array

# Tables of Unicode's properties of every code point; they agree with `re` and `str` of this Python.

WORD, BLANK = 1, 2
HARD = -1
ASCII = 128  # code points
_COUNT = sys.maxunicode + 1
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 256
_FINAL_SIGMA = "\u03a3"  # its lower case depends on the characters around it


class Characters(NamedTuple):
    """Properties of the code points below n.

    kind   (n,) uint8: WORD if `\\w` of str matches, BLANK if `\\s` does, else 0
    lower  (n,) int32: the lower case of each code point; HARD if that is several, or depends on the characters around
    plain  (2, 256) uint8: for each byte that is an ASCII word character, itself and its lower case; 0 for others
    """

    kind: Array
    lower: Array
    plain: Array


@cache
def characters(count: int = _COUNT) -> Characters:
    """Return the tables of the first `count` code points; making them takes a second for all code points."""
    # A full stop, which is neither word nor blank and has no case, stands for surrogates: they are no characters.
    every = "".join("." if code in _SURROGATES else chr(code) for code in range(count))
    kind = np.zeros(count, np.uint8)
    for flag, pattern in ((WORD, r"\w+"), (BLANK, r"\s+")):
        for match in re.finditer(pattern, every):
            kind[match.start() : match.end()] = flag
    lower = np.arange(count, dtype=np.int32)
    for begin in range(0, count, _BLOCK):
        block = every[begin : begin + _BLOCK]
        if block.lower() != block:
            for code, character in enumerate(block, begin):
                small = character.lower()
                lower[code] = ord(small) if len(small) == 1 and character != _FINAL_SIGMA else HARD
    lower[_SURROGATES.start : _SURROGATES.stop] = _SURROGATES[: max(0, count - _SURROGATES.start)]
    plain = np.zeros((2, 256), np.uint8)
    words = np.flatnonzero(kind[:ASCII] == WORD)
    plain[0, words], plain[1, words] = words, lower[words]
    return Characters(kind, lower, plain)


def hard_characters() -> str:
    """Return the characters whose lower case is several characters, or depends on the characters around them."""
    return "".join(map(chr, np.flatnonzero(characters().lower == HARD).tolist()))


@njit(cache=True, nogil=True)
def _code_at(text: Array, p: int) -> tuple[Any, int]:
    """Return the code point at offset p of text in UTF-8, and the offset of the next code point."""
    c = np.int64(text[p])
    if c < 0x80:
        return c, p + 1
    if c < 0xE0:
        return (c & 0x1F) << 6 | np.int64(text[p + 1] & 0x3F), p + 2
    if c < 0xF0:
        return (c & 0x0F) << 12 | np.int64(text[p + 1] & 0x3F) << 6 | np.int64(text[p + 2] & 0x3F), p + 3
    high = (c & 0x07) << 18 | np.int64(text[p + 1] & 0x3F) << 12
    return high | np.int64(text[p + 2] & 0x3F) << 6 | np.int64(text[p + 3] & 0x3F), p + 4


@njit(cache=True, nogil=True)
def _put(low: Array, q: int, code: Any) -> int:
    """Write a code point in UTF-8 at offset q; return the offset behind it."""
    if code < 0x80:
        low[q] = code
        return q + 1
    if code < 0x800:
        low[q], low[q + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return q + 2
    if code < 0x10000:
        low[q], low[q + 1], low[q + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
        return q + 3
    low[q], low[q + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F
    low[q + 2], low[q + 3] = 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return q + 4


# Analyzers.
WORDS, CHARS, CHARS_OF_WORDS = 0, 1, 2

KEY, COUNT, FIRST_BEGIN, FIRST_END = range(4)
_ONE, _FOUR, _SIX, _63 = (np.uint64(number) for number in (1, 4, 6, 63))
SPACE = 32
NOTED_AT_ONCE = 256  # n-grams are cut in one loop and counted in another: numba makes two such loops fast


class Grams(NamedTuple):
    """Which n-grams are features: `analyzer` is WORDS, CHARS or CHARS_OF_WORDS; n goes from least to most."""

    analyzer: int
    least: int
    most: int
    n_features: int
    alternate_sign: bool
    lowercase: bool


class Table(NamedTuple):
    """A hash table of the features of one document, and buffers.

    slots    (4 s,) int32, s a power of two from 64 on: for each slot KEY, the feature, COUNT, its sum, and begin and
             end in `low` of its first n-gram. Between documents every KEY is -1
    taken    (s / 64,) uint64: a bit for each slot in use
    touched  (s // 2 + 1,) int64: feature << 32 | slot, for each slot in use
    low      (3 * longest document + 16,) uint8: the document's text, normalised, out of which n-grams are cut
    noted    (NOTED_AT_ONCE, 2) int64: begin and end in `low` of n-grams that are not counted yet
    starts   (most,) int64: where the last words, or characters, begin in `low`, by their number modulo `most`
    """

    slots: Array
    taken: Array
    touched: Array
    low: Array
    noted: Array
    starts: Array


# add_words, add_chars and add_chars_of_words read the document text[p:end], valid UTF-8, and count each of its n-grams,
# which words_kernel defines, in slots 0 to mask; mask + 1 is a power of two. They return False if more than half of the
# slots would be used. `used` counts the slots in use.


@njit(cache=True, nogil=True)
def scale_of(mask: int, grams: Grams) -> Any:
    """Return slots per feature, times 2**32. A feature's first slot is proportional to it: slots are nearly sorted."""
    return (np.int64(mask + 1) << 32) // grams.n_features


@njit(cache=True, nogil=True)
def count_noted(n_noted: int, used: int, grams: Grams, table: Table, mask: int) -> int:
    """Count the first `n_noted` n-grams in `noted`; return the number of slots in use then, -1 if slots are too few."""
    slots, taken, low, noted = table.slots, table.taken, table.low, table.noted
    scale, n = scale_of(mask, grams), grams.n_features
    is_power, alternates = n & (n - 1) == 0, np.int64(grams.alternate_sign)
    enough, k = True, 0
    while enough and k < n_noted:
        h = murmur_within(low, noted[k, 0], noted[k, 1])
        feature = -h if h < 0 else h
        feature = feature & (n - 1) if is_power else feature % n
        slot = np.uint64(feature * scale >> 32)
        found = slots[_FOUR * slot]
        while found != feature and found >= 0:
            slot = (slot + _ONE) & np.uint64(mask)
            found = slots[_FOUR * slot]
        place = np.int64(_FOUR * slot)
        if found < 0:
            enough = 2 * used <= mask
            if enough:
                slots[place + KEY], slots[place + COUNT] = feature, 0
                slots[place + FIRST_BEGIN], slots[place + FIRST_END] = noted[k, 0], noted[k, 1]
                taken[slot >> _SIX] |= _ONE << (slot & _63)
                used += 1
        if enough:
            slots[place + COUNT] += 1 - 2 * (np.int64(h < 0) & alternates)
        k += 1
    return used if enough else -1


@njit(cache=True, nogil=True)
def collect(table: Table, mask: int) -> int:
    """Write the table's features to `touched`, ascending, and clear `taken`; return the number of features."""
    slots, taken, touched = table.slots, table.taken, table.touched
    used = 0
    for word in range(mask + 1 >> 6):
        bits, taken[word] = taken[word], np.uint64(0)
        while bits:
            slot = (word << 6) + lowest_bit(bits)
            bits &= bits - _ONE
            place = used
            key = np.int64(slots[4 * slot + KEY]) << 32 | slot
            while place > 0 and touched[place - 1] > key:
                touched[place] = touched[place - 1]
                place -= 1
            touched[place] = key
            used += 1
    return used


@njit(cache=True, nogil=True)
def add_words(text: Array, p: Any, end: int, grams: Grams, chars: Characters, table: Table, mask: int) -> bool:
    """Count the n-grams of words in text[p:end]; return whether the slots were enough."""
    low, starts, noted = table.low, table.starts, table.noted
    k = 0
    kind, lower = chars.kind, chars.lower
    plain = chars.plain[1 if grams.lowercase else 0]
    used: Any = np.int64(0)  # a literal would make numba compile count_noted a second time
    words = 0
    last = 0  # words modulo grams.most
    q: Any = 0
    begin = length = 0  # of the word: its offset in `low`, and its number of characters; q is its end
    while True:
        # Unsigned indices, since numba checks the sign of signed ones.
        at, to = np.uint64(p), np.uint64(q)
        while at < np.uint64(end):
            simple = plain[text[at]]
            if simple == 0:
                break
            low[to] = simple
            at, to = at + _ONE, to + _ONE
        length += np.int64(to) - q
        p, q = np.int64(at), np.int64(to)
        following = p + 1
        if p < end and text[p] >= 0x80:
            code, following = _code_at(text, p)
            if grams.lowercase:
                code = np.int64(lower[code])
            if kind[code] == WORD:
                q = _put(low, q, code)
                length += 1
                p = following
                continue
        if length > 1:
            starts[last] = begin
            words += 1
            for n in range(grams.least, min(grams.most, words) + 1):
                first = last - n + 1
                noted[k, 0], noted[k, 1] = starts[first + grams.most if first < 0 else first], q
                k += 1
                if k == NOTED_AT_ONCE:
                    k, used = 0, count_noted(k, used, grams, table, mask)
                    if used < 0:
                        return False
            last = last + 1 if last + 1 < grams.most else 0
            low[q] = SPACE
            begin = q + 1
        q, length = begin, 0
        if p >= end:
            return count_noted(k, used, grams, table, mask) >= 0
        p = following


@njit(cache=True, nogil=True)
def add_chars(text: Array, p: int, end: int, grams: Grams, chars: Characters, table: Table, mask: int) -> bool:
    """Count the n-grams of characters in text[p:end]; return whether the slots were enough."""
    low, starts, noted = table.low, table.starts, table.noted
    k = 0
    kind, lower = chars.kind, chars.lower
    used: Any = np.int64(0)
    q = count = 0
    while p < end:
        code, p = _code_at(text, p)
        if grams.lowercase:
            code = np.int64(lower[code])
        if kind[code] == BLANK and p < end:
            following, behind = _code_at(text, p)
            if kind[following] == BLANK:
                code = SPACE
                while p < end and kind[following] == BLANK:
                    p = behind
                    if p < end:
                        following, behind = _code_at(text, p)
        starts[count % grams.most] = q
        count += 1
        q = _put(low, q, code)
        for n in range(grams.least, min(grams.most, count) + 1):
            noted[k, 0], noted[k, 1] = starts[(count - n) % grams.most], q
            k += 1
            if k == NOTED_AT_ONCE:
                k, used = 0, count_noted(k, used, grams, table, mask)
                if used < 0:
                    return False
    return count_noted(k, used, grams, table, mask) >= 0


@njit(cache=True, nogil=True)
def add_chars_of_words(text: Array, p: int, end: int, grams: Grams, chars: Characters, table: Table, mask: int) -> bool:
    """Count the n-grams of characters of each word in text[p:end]; return whether the slots were enough."""
    low, starts, noted = table.low, table.starts, table.noted
    k = 0
    kind, lower = chars.kind, chars.lower
    used: Any = np.int64(0)
    q = begin = count = 0  # count: characters of the word so far, with the space before it
    while True:
        code: Any = SPACE
        following, is_blank = p, True
        if p < end:
            code, following = _code_at(text, p)
            if grams.lowercase:
                code = np.int64(lower[code])
            is_blank = kind[code] == BLANK
        if is_blank and count == 0:
            if p >= end:
                return count_noted(k, used, grams, table, mask) >= 0
            p = following
            continue
        if count == 0:
            # The space before the word is a character, too; the next iteration reads the word's first character.
            begin, code, following = q, SPACE, p
        starts[count % grams.most] = q
        count += 1
        q = _put(low, q, SPACE if is_blank else code)
        longest = count - 1 if is_blank else count
        for n in range(grams.least, min(grams.most, longest) + 1):
            noted[k, 0], noted[k, 1] = starts[(count - n) % grams.most], q
            k += 1
            if k == NOTED_AT_ONCE:
                k, used = 0, count_noted(k, used, grams, table, mask)
                if used < 0:
                    return False
        if is_blank:
            if grams.most >= count:
                noted[k, 0], noted[k, 1] = begin, q
                k += 1
                if k == NOTED_AT_ONCE:
                    k, used = 0, count_noted(k, used, grams, table, mask)
                    if used < 0:
                        return False
            count = 0
        p = following
