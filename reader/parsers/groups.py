"""Values of a column of groups, as the numbers that blocks hold."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from streamsvm.storage.rows.csr import GROUP, Array


@lru_cache(1 << 16)
def group_of(value: str) -> int:
    """The first 8 bytes of the BLAKE2b hash of a text in UTF-8, little-endian: the same on every machine."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")


def groups_of(values: Iterable[object]) -> Array:
    """(n,) uint64 of strings or numbers; a number counts as its text: 7, or 0.5."""
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values)
    return np.fromiter(map(group_of, texts), GROUP)
