"""Hashes the values of a column of groups to the numbers that blocks hold."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from streamsvm.storage.rows.csr import GROUP, Array


@lru_cache(1 << 16)
def group_of(value: str) -> int:
    """The first 8 bytes of the BLAKE2b hash of a text in UTF-8, little-endian: equal on all machines."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")


def groups_of(values: Iterable[object]) -> Array:
    """(n,) uint64: the hashes of strings or numbers; a number is hashed as its text, such as 7 or 0.5."""
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values)
    return np.fromiter(map(group_of, texts), GROUP)
