"""Random orders inside a segment, made of integers only: compiled and plain Python agree to the bit."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Marsaglia's xorshift (2003), 32 bits, kept in signed 64-bit integers: nothing overflows.


@njit(cache=True)
def next_random(state: int) -> int:
    state ^= (state << 13) & 0xFFFFFFFF
    state ^= state >> 17
    state ^= (state << 5) & 0xFFFFFFFF
    return state


# permutation(seed > 0, order (n,) int32): fills `order` with 0 .. n - 1 in random order (Fisher-Yates).


@njit(cache=True)
def permutation(seed: int, order: Array) -> None:
    state = seed
    for i in range(order.shape[0]):
        state = next_random(state)
        j = (state * (i + 1)) >> 32
        order[i] = order[j]
        order[j] = i


def random_order(count: int, rng: np.random.Generator) -> Array:
    """Return the numbers 0 .. count - 1 in random order, (count,) int32."""
    order = np.empty(count, np.int32)
    permutation(int(rng.integers(1, 1 << 32)), order)
    return order


# shuffle(seed > 0, items): puts the items (n,) of an array in random order, in place.


@njit(cache=True)
def shuffle(seed: int, items: Array) -> None:
    state = seed
    for i in range(items.shape[0] - 1, 0, -1):
        state = next_random(state)
        j = (state * (i + 1)) >> 32
        kept = items[i]
        items[i] = items[j]
        items[j] = kept
