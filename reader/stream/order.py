"""In which order a pass reads blocks, and pieces inside a block: a pure function of (seed, pass)."""

import numpy as np

from streamsvm.storage.rows.csr import Array

# Streams of random numbers drawn from one seed, kept apart by the second part of their seed sequence.
ORDER, RESIDENTS = 0, 1


def block_order(count: int, seed: int, pass_: int) -> Array:
    """Permutation (count,) of the blocks for pass `pass_`."""
    return np.random.default_rng((seed, ORDER, pass_, 0)).permutation(count)


def piece_order(n_pieces: int, seed: int, pass_: int, block: int) -> Array:
    """Permutation (n_pieces,) of a block's pieces.

    The pieces of a block follow the input's order: in a large one, neighbours would be alike.
    """
    return np.random.default_rng((seed, ORDER, pass_, block + 1)).permutation(n_pieces)
