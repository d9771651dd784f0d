"""Inner loops of tables with categories: they map fields to features, and write features to rows."""

import numpy as np

from streamsvm.reader.parsers.murmur_kernel import murmur
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

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
