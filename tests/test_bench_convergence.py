"""Peers of the convergence bench solve the problem that the table says: their objectives agree where it is easy."""

import numpy as np
import pytest
from scipy import sparse

from tests.bench.convergence.peer import PEERS, fit
from tests.bench.convergence.table import objective

C = 0.01


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_comes_near_the_optimum(peer):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.normal(size=(300, 4)))
    y = np.sign(X @ rng.normal(size=4) + rng.normal(size=300) + 2.0)  # two thirds are +1: the bias matters
    _, _, w = fit(X, y, peer, C)
    near = np.array(w)
    assert len(near) == X.shape[1] + 1
    least = objective((X, y), near, C)
    for step in np.vstack([np.eye(len(near)), -np.eye(len(near))]) * 0.1:
        assert objective((X, y), near + step, C) > 0.999 * least
