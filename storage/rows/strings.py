"""Strings of bases as rows: 16 bases in a word, 2 bits each, the first in the lowest bits; A C G T are 0 1 2 3.

A row has as many words as it takes. `indices` hold them, as bit patterns; `values` are 1 + m, where bit k of m says
that base k of the word is unknown: it is 0 then, as is what the last word has beyond the string.
"""

BASES_A_WORD = 16


def words_of(length: int) -> int:
    """Of a string of so many bases."""
    return -(-length // BASES_A_WORD)
