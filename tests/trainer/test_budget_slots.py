"""How many places there are for support vectors."""

import pytest

from streamsvm.storage.models.gaussian_kernel import LANES
from streamsvm.trainer.solvers.budget import slots_of


@pytest.mark.parametrize("budget", [2, 15, 16, 100, 500, 511, 512, 527, 528, 1000])
def test_there_is_one_place_more_than_the_budget_and_the_number_of_lanes_is_odd(budget):
    slots = slots_of(budget)
    assert budget < slots <= budget + 2 * LANES
    assert slots % LANES == 0
    assert slots // LANES % 2 == 1
