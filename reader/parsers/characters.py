"""What Unicode says of every code point, as tables for kernels: what `re` and `str` of this Python say."""

import re
import sys
from functools import cache
from typing import NamedTuple

import numpy as np

from storage.csr import Array

WORD, BLANK = 1, 2
HARD = -1
_COUNT = sys.maxunicode + 1
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 256
_FINAL_SIGMA = "\u03a3"  # its lower case depends on what stands around it


class Characters(NamedTuple):
    """
    kind   (0x110000,) uint8: WORD for what `\\w` matches, BLANK for what `\\s` matches, both of str; else 0
    lower  (0x110000,) int32: the code point in lower case; HARD where that is more than one, or depends on the others
    """

    kind: Array
    lower: Array


@cache
def characters() -> Characters:
    """The tables, made when they are first asked for."""
    # A surrogate is no character; a full stop is neither word nor blank, and has no case.
    every = "".join("." if code in _SURROGATES else chr(code) for code in range(_COUNT))
    kind = np.zeros(_COUNT, np.uint8)
    for flag, pattern in ((WORD, r"\w+"), (BLANK, r"\s+")):
        for match in re.finditer(pattern, every):
            kind[match.start() : match.end()] = flag
    lower = np.arange(_COUNT, dtype=np.int32)
    for begin in range(0, _COUNT, _BLOCK):
        block = every[begin : begin + _BLOCK]
        if block.lower() != block:
            for code, character in enumerate(block, begin):
                small = character.lower()
                lower[code] = ord(small) if len(small) == 1 and character != _FINAL_SIGMA else HARD
    lower[list(_SURROGATES)] = _SURROGATES
    return Characters(kind, lower)


def hard_characters() -> str:
    """Those whose lower case is more than one character, or depends on what stands around them."""
    return "".join(map(chr, np.flatnonzero(characters().lower == HARD).tolist()))
