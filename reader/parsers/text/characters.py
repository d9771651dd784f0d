"""What Unicode says of every code point, as tables for kernels: what `re` and `str` of this Python say."""

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
_FINAL_SIGMA = "\u03a3"  # its lower case depends on what stands around it


class Characters(NamedTuple):
    """Of the code points below some number n.

    kind   (n,) uint8: WORD for what `\\w` matches, BLANK for what `\\s` matches, both of str; else 0
    lower  (n,) int32: the code point in lower case; HARD where that is more than one, or depends on the others
    plain  (2, 256) uint8: of a byte that is an ASCII word character that byte, and it in lower case; else 0
    """

    kind: Array
    lower: Array
    plain: Array


@cache
def characters(count: int = _COUNT) -> Characters:
    """The tables of the first code points, made when they are first asked for: a second for all of them."""
    # A surrogate is no character; a full stop is neither word nor blank, and has no case.
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
    """Those whose lower case is more than one character, or depends on what stands around them."""
    return "".join(map(chr, np.flatnonzero(characters().lower == HARD).tolist()))
