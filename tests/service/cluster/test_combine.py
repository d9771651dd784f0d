"""The step along what machines have changed, against a search over many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.service.cluster.rounds.convergence import best_step, dots
from streamsvm.service.cluster.rounds.messages import Change


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5]), st.sampled_from([1, 4]))
def test_the_step_is_the_best_of_many(seed, D, lanes):
    rng = np.random.default_rng(seed)
    Z, alpha, change = rng.standard_normal((12, 5)), rng.random((12, lanes)), rng.standard_normal((12, lanes)) / 4
    w, w_change = Z.T @ alpha, Z.T @ change

    def dual(step):
        moved = alpha + step * change
        return moved.sum(0) - D * (moved**2).sum(0) / 2 - ((Z.T @ moved) ** 2).sum(0) / 2

    linear, square = change.sum(0) - D * (alpha * change).sum(0), D * (change**2).sum(0)
    step = best_step(w, w_change, linear, square)
    others = np.max([dual(k) for k in np.linspace(0, 1, 101)], axis=0)
    assert (dual(step) >= others - 1e-12).all()
    assert ((step >= 0) & (step <= 1)).all()


def test_nothing_changed_is_a_whole_step():
    assert best_step(np.ones((3, 1)), np.zeros((3, 1)), np.zeros(1), np.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("shape", [(1000, 1), (250, 4)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.9])
def test_a_change_is_sent_whole_or_by_place_whichever_is_smaller(shape, share):
    rng = np.random.default_rng(1)
    difference = np.where(rng.random(shape) < share, rng.standard_normal(shape), 0.0)
    sent, total = Change.of(difference), np.ones(shape)
    sent.add_to(total)
    assert np.allclose(total, 1.0 + difference, atol=1e-6)
    assert (sent.indices is None) == (share == 0.9)
    assert sent.n_bytes <= 4 * difference.size


def test_dots_of_lanes():
    a, b = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    assert dots(a, b).tolist() == [6.0, 9.0]
