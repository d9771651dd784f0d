"""Compares the Crammer-Singer objective with loops that follow the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.trainer.problem.losses import crammer_singer


def a_problem(seed=0, n=30, n_classes=4, d=6, weighted=True):
    """(X (n, d), y (n,) codes of classes, C (n,) of the rows)."""
    rng = np.random.default_rng(seed)
    of_class = rng.choice([0.1, 1.0, 3.0], n_classes)
    y = rng.integers(0, n_classes, n).astype(np.uint16)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n).astype(np.float32) if weighted else None
    C = of_class[y] * (1.0 if weight is None else weight)
    return rng.standard_normal((n, d)), y, C


def feasible(rng, y, C, n_classes):
    """alpha (n, n_classes) with C_i shared by few classes, by one, by all."""
    room = np.zeros((len(y), n_classes))
    for i in range(len(y)):
        which = rng.choice(n_classes, rng.integers(1, n_classes + 1), replace=False)
        room[i, which] = C[i] * rng.dirichlet(np.ones(len(which)))
    return bounds_of(y, C, n_classes) - room


def bounds_of(y, C, n_classes):
    return np.where(np.arange(n_classes) == y[:, None], C[:, None], 0.0)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_losses_dual_and_violations(seed, weighted):
    X, y, C = a_problem(seed, weighted=weighted)
    rng = np.random.default_rng(seed)
    alpha, z = feasible(rng, y, C, 4), X @ rng.standard_normal((6, 4))
    losses = dual = 0.0
    for i in range(len(y)):
        label = int(y[i])
        G = [z[i, m] + (m != label) for m in range(4)]
        losses += C[i] * (max(G) - z[i, label])
        dual -= sum(alpha[i, m] for m in range(4) if m != label)
        with_room = [G[m] for m in range(4) if alpha[i, m] < (C[i] if m == label else 0.0)]
        violation = max(G) - min(with_room) if with_room else 0.0
        assert crammer_singer.violations(y, C, z, alpha)[i] == pytest.approx(violation, abs=1e-12)
    assert crammer_singer.losses(y, C, z) == pytest.approx(losses, rel=1e-12)
    assert crammer_singer.dual(y, alpha) == pytest.approx(dual, rel=1e-12)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.sampled_from([0.0, 1e-9, 0.5, 10.0]))
def test_projected_alpha_is_feasible_and_feasible_alpha_stays(seed, n_classes, moved):
    rng = np.random.default_rng(seed)
    _, y, C = a_problem(seed % 1000, n_classes=n_classes)
    inside = feasible(rng, y, C, n_classes)
    step = rng.standard_normal(inside.shape) * (C[:, None] > 0)
    alpha = inside + moved * (step - step.mean(axis=1, keepdims=True))
    projected, bounds = crammer_singer.scaled_into_bounds(y, C, alpha), bounds_of(y, C, n_classes)
    assert np.all(projected <= bounds)
    assert np.abs(projected.sum(axis=1)).max() <= 1e-12
    assert not projected[C == 0].any()
    if moved == 0.0:
        assert projected == pytest.approx(alpha, rel=1e-12, abs=1e-13)
        assert np.array_equal(projected == bounds, alpha == bounds)
    else:
        # The projection moves alpha little if it was moved little, and moves numbers beyond a bound to the bound.
        assert np.abs(projected - inside).max() <= 20 * n_classes * moved * (1 + np.abs(step).max())
        assert np.all((projected == bounds)[alpha >= bounds])


def test_weak_duality_after_projection():
    """For any alpha, D of its projection is at most P of any w."""
    X, y, C = a_problem(7)
    rng = np.random.default_rng(0)
    for _ in range(30):
        alpha = crammer_singer.projected(y, C, rng.standard_normal((len(y), 4)) * 3)
        W, V = rng.standard_normal((6, 4)) / 3, X.T @ alpha
        primal = np.sum(W * W) / 2 + crammer_singer.losses(y, C, X @ W)
        assert primal >= crammer_singer.dual(y, alpha) - np.sum(V * V) / 2


def test_alpha_of_rows_with_C_0_becomes_0():
    alpha = np.array([[1.0, 0.0], [5.0, 2.0]])
    assert not crammer_singer.projected(np.array([0, 1]), np.array([1.0, 2.0]), alpha).any()
