"""Tables of Unicode's properties of every code point, for kernels; they agree with `re` and `str` of this Python."""

import re
import sys
from functools import cache
from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array

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
