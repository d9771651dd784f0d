"""Inner loops that check strings of bases in a column, and pack them into words of 2 bits a base."""

from typing import Any

import numpy as np

from streamsvm.reader.parsers.strings.fasta_kernel import BASES_A_WORD, UNKNOWN_BASE, put_word
from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# are_strings(text, start, stop, code, length, out (n,) bool): out[i] says whether text[start[i]:stop[i]] is `length`
# letters.
# pack_strings(text, start, stop, code, words, values): packs such strings into words and values, see `fasta_kernel`.
#
# text (n,) uint8; start and stop (r,) integers; code (256,): fasta_kernel.CODES.


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
