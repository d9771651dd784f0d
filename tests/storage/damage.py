"""Makes damaged copies of a file's bytes."""

from collections.abc import Iterator

import numpy as np


def truncations(data: bytes) -> Iterator[bytes]:
    """Every shorter beginning of the bytes."""
    for length in range(len(data)):
        yield data[:length]


def bit_flips(data: bytes) -> Iterator[bytes]:
    """Every copy with one bit changed."""
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def scrambled(data: bytes, copies: int, seed: int = 0) -> Iterator[bytes]:
    """Copies with a few bytes replaced by random ones."""
    rng = np.random.default_rng(seed)
    for _ in range(copies):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 5)):
            damaged[place] = rng.integers(256)
        if damaged != data:
            yield bytes(damaged)
