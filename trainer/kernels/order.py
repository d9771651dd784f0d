"""Random orders inside a segment, from integers alone, so that compiled and plain Python agree to the bit."""

from numba import njit

from storage.csr import Array

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
