"""The alpha that is best for a row if moving from a centre costs something, against a search for it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from streamsvm.trainer.problem.losses import LOSSES, REGRESSION, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms

EPSILON = 0.3
N = 40
# sigma may be infinite where alpha is a function of m.
WAYS = [
    (loss, sigma) for loss in LOSSES for sigma in (1e-2, 1.0, 3.0, np.inf)
    if sigma < np.inf or make_loss(loss, EPSILON).is_smooth
]  # fmt: skip


def some_rows(loss, seed=0):
    """(terms, centres, m): rows of several C, one of them left out; centres in their box, some at its bounds."""
    rng = np.random.default_rng(seed)
    C = rng.choice([0.0, 0.2, 1.0, 30.0], N)
    terms = RowTerms(np.ones(N), C, rng.standard_normal(N), np.zeros(N, np.uint16))
    share = rng.choice([0.0, 0.3, 1.0], N)
    centre = share * C * (rng.choice([-1.0, 1.0], N) if loss in REGRESSION else 1.0)
    return terms, centre, rng.standard_normal(N) * rng.choice([0.1, 1.0, 10.0], N)


def value(loss, terms, k, centre, sigma, m, alpha):
    """d_i(alpha) - m alpha - (alpha - centre)^2 / (2 sigma C), where m of regression has y in it, as d has."""
    row = RowTerms(*(column[k : k + 1] for column in terms))
    linear = m + row.target[0] if loss in REGRESSION else m
    d = make_loss(loss, EPSILON).dual(row, np.array([alpha]))
    return d - linear * alpha - (alpha - centre) ** 2 / (2.0 * sigma * row.C[0])


@pytest.mark.parametrize(("loss", "sigma"), WAYS)
def test_it_is_the_best_in_the_box(loss, sigma):
    own, (terms, centre, m) = make_loss(loss, EPSILON), some_rows(loss)
    alpha, h = own.proximal(terms, centre, sigma, m)
    assert np.array_equal(alpha, own.projected(terms, alpha))
    assert not alpha[terms.C == 0.0].any() and not h[terms.C == 0.0].any()
    # Logistic loss has no use for a centre: its alpha is the one for an infinite sigma.
    heeded = sigma if own.has_centre else np.inf
    for k in np.flatnonzero(terms.C > 0.0):
        high = terms.C[k] * (400.0 if loss.startswith("squared") else 1.0)
        low = -high if loss in REGRESSION else 0.0
        search = minimize_scalar(
            lambda a, k=k: -value(loss, terms, k, centre[k], heeded, m[k], a), bounds=(low, high), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        best = max(-search.fun, *(value(loss, terms, k, centre[k], heeded, m[k], end) for end in (low, 0.0, high)))
        assert value(loss, terms, k, centre[k], heeded, m[k], alpha[k]) >= best - 1e-9 * max(1.0, abs(best))


@pytest.mark.parametrize(("loss", "sigma"), WAYS)
def test_h_is_how_fast_it_falls(loss, sigma):
    own, (terms, centre, m) = make_loss(loss, EPSILON), some_rows(loss, seed=1)
    step = 1e-7
    ends = [own.proximal(terms, centre, sigma, m + side * step) for side in (-0.5, 0.5)]
    _, h = own.proximal(terms, centre, sigma, m)
    slope = (ends[0][0] - ends[1][0]) / step
    inside = (ends[0][1] > 0.0) == (ends[1][1] > 0.0)  # no corner between
    assert np.count_nonzero(inside) > N // 2 and (h >= 0.0).all() and h.any()
    np.testing.assert_allclose(slope[inside], h[inside], rtol=1e-4, atol=1e-4 * h.max())
