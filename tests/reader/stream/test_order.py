"""The order of a pass is a function of seed and pass, and different for each."""

import itertools

import numpy as np
import pytest

from streamsvm.reader.stream.piece_sources import block_order, piece_order

PLACES = list(itertools.product((0, 1, 2**40), (1, 2, 300)))


@pytest.mark.parametrize("n", [1, 2, 50])
def test_orders_are_permutations(n):
    for seed, pass_ in PLACES:
        assert sorted(block_order(n, seed, pass_)) == list(range(n))
        assert sorted(piece_order(n, seed, pass_, 7)) == list(range(n))


def test_orders_depend_on_seed_pass_and_block_only():
    orders = set()
    for seed, pass_ in PLACES:
        np.random.default_rng(1).random(10)
        assert np.array_equal(block_order(50, seed, pass_), block_order(50, seed, pass_))
        orders.add(tuple(block_order(50, seed, pass_)))
        for block in (0, 1):
            assert np.array_equal(piece_order(50, seed, pass_, block), piece_order(50, seed, pass_, block))
            orders.add(tuple(piece_order(50, seed, pass_, block)))
    assert len(orders) == 3 * len(PLACES)


def test_every_block_comes_first_sometimes():
    assert {int(block_order(8, 0, pass_)[0]) for pass_ in range(100)} == set(range(8))
