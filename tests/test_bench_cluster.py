"""What the bench of several machines simulates, on a problem small enough to solve otherwise."""

import numpy as np
import pytest

from tests.bench.cluster.simulated import Simulated, model_seconds, simulate
from tests.contracts.problems import random_problem


@pytest.mark.parametrize("machines", [1, 3])
def test_a_simulation_comes_to_its_gap(machines):
    X, y = random_problem(400)
    found = simulate(X.astype(np.float64), y, 10.0, machines)
    assert found.rounds(1e-4) == len(found.gaps)
    assert 0.0 <= found.gaps[-1] <= 1e-4
    assert found.rounds(1e-3) <= found.rounds(1e-4)
    assert (max(values for values, _ in found.pooled) > 0) == (machines > 1)
    assert all(values <= X.nnz for values, _ in found.pooled)


def test_seconds_of_the_model():
    found = Simulated([1e-2, 1e-4], 100.0, [(0, 0), (1000, 5000)])
    alone = model_seconds(found, 2, 1, 1e6, 100, 1e-8)
    assert alone == pytest.approx(8e6 / 500e6 + 2 * 3 * 1e6 * 1e-8)
    without, pooled = (model_seconds(found, rounds, 4, 1e6, 100, 1e-8) for rounds in (1, 2))
    assert without == pytest.approx(2e6 / 500e6 + 3 * 0.25e6 * 1e-8 + (4 * 100 + 2 * 400) / 1.25e9 + 0.01)
    assert pooled > 2 * without - 2e6 / 500e6
    assert model_seconds(found, 2, 4, 1e6, 100, 1e-8, 1000.0) > 100 * pooled - 1.0
