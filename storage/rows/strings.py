"""Strings of bases as rows: 16 bases in a word, 2 bits each, the first in the lowest bits; A C G T are 0 1 2 3.

`indices` hold the words of a row as bit patterns. `values` are 1 + m, where bit k of m says that base k of the word is
unknown. Unknown bases, and the bits of the last word beyond the string, are 0.
"""

BASES_A_WORD = 16


def words_of(length: int) -> int:
    """Words of a string of `length` bases."""
    return -(-length // BASES_A_WORD)
