"""Kernels of the text-like generator: random numbers, the draw of one row, and its formatting as LIBSVM text.

The model. Features have popularity ranks 0 .. n_features - 1, drawn with probability proportional to
(rank + 1) ** -zipf; a bijection scatters ranks over the index range. A sparse hyperplane h has h = +1 or -1 on a share
of the middle ranks and 0 elsewhere (stop words and rarities say nothing). An author has a vocabulary of his own and a
lean of +1 or -1; each of his rows leans as he does, most times, and avoids some of the words that h counts against it.
A row's weights are (1 + log tf) * idf, scaled to unit length; its label is the sign of <h, weights> plus noise.

Every random number comes from splitmix64, whose state is a one-element uint64 array that the draw changes in place:
a chunk depends on its own seed only, so chunks may be made in any order and on any number of threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = (np.uint64(shift) for shift in (11, 27, 30, 31, 32))
ONE = np.uint64(1)

MAX_ROW_FACTOR = 8  # no row is longer than this many times the mean
ENTRY_BYTES = 24  # " 4194304:0.000123457" and room to spare


class Corpus(NamedTuple):
    """What the kernels know of the corpus; everything but the seed of the chunk at hand."""

    salt: np.uint64  # seeds the hyperplane and the scattering, common to training and test rows
    n_features: int
    index_bits: int  # 2 ** index_bits >= n_features
    zipf: float
    zipf_span: float  # (n_features + 1) ** (1 - zipf) - 1
    row_length: float  # mean number of non-zeros
    length_sigma: float  # of the logarithm of the row length
    rows_per_author: float  # mean of a geometric distribution
    rarity_floor: float  # added to a word's expected occurrences in a row: rarer words weigh no more
    vocabulary: int  # words an author has of his own
    vocabulary_share: float  # of the words drawn come from there
    informative_from: int  # h is zero below this rank
    informative_to: int  # and from this one on
    informative_share: float  # of the ranks between have h != 0
    avoidance: float  # probability that a word against the row's lean is drawn again
    constancy: float  # probability that a row leans as its author does
    signal: float  # <h, weights> is multiplied by this before unit noise is added
    flip: float  # share of the labels turned over afterwards


@njit(cache=True, nogil=True)
def mix64(z):
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@njit(cache=True, nogil=True)
def uniform(state):
    """Next number in [0, 1)."""
    state[0] += GOLDEN
    return float(mix64(state[0]) >> S11) * 2.0**-53


@njit(cache=True, nogil=True)
def normal(state):
    """Next standard normal number (Box and Muller, one of the pair)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@njit(cache=True, nogil=True)
def zipf_rank(state, corpus):
    """Rank with probability about proportional to (rank + 1) ** -zipf, by inverting the continuous law; zipf != 1."""
    rank = int(math.exp(math.log1p(uniform(state) * corpus.zipf_span) / (1.0 - corpus.zipf))) - 1
    return min(max(rank, 0), corpus.n_features - 1)


@njit(cache=True, nogil=True)
def scatter(rank, corpus):
    """0-based feature index of a rank: a bijection of index_bits bits, applied until the value is in range."""
    mask = (ONE << np.uint64(corpus.index_bits)) - ONE
    half = np.uint64(corpus.index_bits // 2 + 1)
    z = np.uint64(rank)
    while True:
        z = ((z + corpus.salt) * (MIX_1 | ONE)) & mask
        z ^= z >> half
        z = (z * (MIX_2 | ONE)) & mask
        z ^= z >> half
        if z < np.uint64(corpus.n_features):
            return np.int64(z)


@njit(cache=True, nogil=True)
def hyperplane(rank, corpus):
    """h of a rank: -1, 0 or 1."""
    if rank < corpus.informative_from or rank >= corpus.informative_to:
        return 0
    z = mix64(np.uint64(rank) * GOLDEN + corpus.salt)
    if float(z >> S11) * 2.0**-53 >= corpus.informative_share:
        return 0
    return 1 if z & ONE else -1


@njit(cache=True, nogil=True)
def idf(rank, corpus):
    """log(1 + 1 / expected occurrences in a row): about log(n / df), and it needs no counting."""
    mass = corpus.zipf_span / (1.0 - corpus.zipf)
    expected = corpus.row_length / (mass * math.exp(corpus.zipf * math.log(rank + 1.0)))
    return math.log1p(1.0 / (expected + corpus.rarity_floor))


@njit(cache=True, nogil=True)
def draw_word(state, vocabulary, lean, corpus):
    """Rank of one word: the author's or anybody's, drawn again at times when h counts it against the lean."""
    while True:
        if uniform(state) < corpus.vocabulary_share:
            rank = vocabulary[int(uniform(state) ** 2 * vocabulary.shape[0])]
        else:
            rank = zipf_rank(state, corpus)
        if hyperplane(rank, corpus) * lean >= 0 or uniform(state) >= corpus.avoidance:
            return rank


@njit(cache=True, nogil=True)
def draw_length(state, corpus):
    """Non-zeros of a row: log-normal with the wanted mean, and never more than half the features."""
    sigma = corpus.length_sigma
    length = int(corpus.row_length * math.exp(sigma * normal(state) - 0.5 * sigma * sigma) + 0.5)
    return max(1, min(length, int(MAX_ROW_FACTOR * corpus.row_length), (corpus.n_features + 1) // 2))


@njit(cache=True, nogil=True)
def draw_row(state, vocabulary, lean, length, table, stamp, ranks, counts, corpus):
    """Draw words until ``length`` are distinct (or 50 times as many were drawn); returns how many are.

    ``ranks`` and ``counts`` receive the distinct words and their frequencies. ``table`` is an open hash table, two
    columns of (stamp of the row, position in ranks): the stamp spares emptying it.
    """
    n = 0
    mask = table.shape[0] - 1
    for _ in range(50 * length):
        rank = draw_word(state, vocabulary, lean, corpus)
        slot = np.int64((np.uint64(rank) * GOLDEN) >> S32) & mask
        while table[slot, 0] == stamp and ranks[table[slot, 1]] != rank:
            slot = (slot + 1) & mask
        if table[slot, 0] == stamp:
            counts[table[slot, 1]] += 1
            continue
        table[slot, 0] = stamp
        table[slot, 1] = n
        ranks[n] = rank
        counts[n] = 1
        n += 1
        if n == length:
            break
    return n


@njit(cache=True, nogil=True)
def weigh(n, ranks, counts, weights, corpus):
    """Fill ``weights`` with the unit row (1 + log tf) * idf; returns <h, weights>."""
    square = 0.0
    for k in range(n):
        weights[k] = (1.0 + math.log(counts[k])) * idf(ranks[k], corpus)
        square += weights[k] * weights[k]
    scale = 1.0 / math.sqrt(square)
    score = 0.0
    for k in range(n):
        weights[k] *= scale
        score += hyperplane(ranks[k], corpus) * weights[k]
    return score


@njit(cache=True, nogil=True)
def write_integer(buffer, at, value):
    """Write a positive integer in decimal; returns the position after it."""
    end = at + 1
    rest = value // 10
    while rest > 0:
        end += 1
        rest //= 10
    position = end
    while position > at:
        position -= 1
        buffer[position] = 48 + value % 10
        value //= 10
    return end


@njit(cache=True, nogil=True)
def write_fraction(buffer, at, value):
    """Write 0 < value <= 1 with six significant digits, never in exponent form; returns the position after it.

    Values from 1e-4 on come out as ``'%.6g' % value`` would write them (but for ties in the last digit).
    """
    decimals = 6
    scaled = value * 1e6
    while scaled < 99999.95 and decimals < 18:
        scaled *= 10.0
        decimals += 1
    digits = np.int64(scaled + 0.5)
    if decimals == 6 and digits >= 1000000:
        buffer[at] = 49
        return at + 1
    while digits % 10 == 0 and decimals > 1:
        digits //= 10
        decimals -= 1
    buffer[at] = 48
    buffer[at + 1] = 46
    end = at + 2 + decimals
    for position in range(end - 1, at + 1, -1):
        buffer[position] = 48 + digits % 10
        digits //= 10
    return end


@njit(cache=True, nogil=True)
def write_row(buffer, at, label, n, ranks, weights, keys, corpus):
    """Write one line, indices 1-based and increasing; returns the position after its newline."""
    for k in range(n):
        keys[k] = (scatter(ranks[k], corpus) << 32) | k
    keys[:n].sort()
    buffer[at] = 43 if label > 0 else 45
    buffer[at + 1] = 49
    at += 2
    for k in range(n):
        buffer[at] = 32
        at = write_integer(buffer, at + 1, (keys[k] >> 32) + 1)
        buffer[at] = 58
        at = write_fraction(buffer, at + 1, weights[keys[k] & 0xFFFFFFFF])
    buffer[at] = 10
    return at + 1


@njit(cache=True, nogil=True)
def write_chunk(seed, corpus, buffer, row_ends):
    """Write ``row_ends.shape[0]`` rows into ``buffer``; ``row_ends`` receives the position after each."""
    state = np.array([seed], np.uint64)
    longest = int(MAX_ROW_FACTOR * corpus.row_length) + 1
    slots = 2
    while slots < 2 * longest:
        slots *= 2
    table = np.full((slots, 2), -1, np.int32)
    ranks = np.empty(longest, np.int64)
    counts = np.empty(longest, np.int64)
    weights = np.empty(longest)
    keys = np.empty(longest, np.int64)
    vocabulary = np.empty(corpus.vocabulary, np.int64)
    author_lean = 0
    at = 0
    for row in range(row_ends.shape[0]):
        if author_lean == 0 or uniform(state) * corpus.rows_per_author < 1.0:
            author_lean = 1 if uniform(state) < 0.5 else -1
            for k in range(vocabulary.shape[0]):
                vocabulary[k] = zipf_rank(state, corpus)
        lean = author_lean if uniform(state) < corpus.constancy else -author_lean
        n = draw_row(state, vocabulary, lean, draw_length(state, corpus), table, row, ranks, counts, corpus)
        score = weigh(n, ranks, counts, weights, corpus)
        label = 1 if corpus.signal * score + normal(state) > 0.0 else -1
        if uniform(state) < corpus.flip:
            label = -label
        at = write_row(buffer, at, label, n, ranks, weights, keys, corpus)
        row_ends[row] = at
    return at
