"""Merging two vectors: against a search over very many places, and against what merging means."""

import math

import numpy as np
import pytest

from streamsvm.trainer.kernels.merging import GRID, best_h, degradation, degradation_table, looked_up, searched
from tests.reference.budgeted import best_merge, gaussian

RNG = np.random.default_rng(0)
PAIRS = [(float(m), float(k)) for m, k in RNG.random((300, 2))]
EDGES = [(m, k) for m in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0) for k in (0.0, 1e-300, 0.1353, 0.5, 1 - 1e-12, 1.0)]


def test_no_place_is_better():
    for m, k in PAIRS + EDGES:
        h = best_h(m, k)
        _, wd = best_merge(m, max(k, 1e-300))
        assert degradation(h, m, k) == pytest.approx(wd, abs=1e-9), (m, k)
        assert 0.0 <= degradation(h, m, k) <= 0.25 + 1e-12, (m, k)
        assert 0.0 <= h <= 1.0, (m, k)


def test_the_table_is_as_near_as_its_grid():
    table = degradation_table()
    errors = [abs(looked_up(table, m, k) - best_merge(m, k)[1]) for m, k in PAIRS]
    assert max(errors) < 1e-4
    assert np.mean(errors) < 3e-7
    assert table.shape == (GRID + 1, GRID + 1)
    assert table.min() >= 0.0
    assert np.abs(table - table[::-1]).max() < 1e-9
    assert [looked_up(table, m, 1.0) for m in (0.0, 0.3, 1.0)] == pytest.approx([0.0] * 3, abs=1e-12)
    assert looked_up(table, 1.0, 0.4) == 0.0


@pytest.mark.parametrize("k", [0.0, 0.05, 0.1353, 0.5, 0.9])
@pytest.mark.parametrize("m", [1e-5, 0.3 / GRID, 0.7 / GRID, 1.5 / GRID])
def test_the_table_is_near_for_a_light_vector_too(m, k):
    """In proportion: wd grows as m^2 from 0."""
    wd = degradation(best_h(m, k), m, k)
    assert [looked_up(degradation_table(), x, k) for x in (m, 1 - m)] == pytest.approx([wd, wd], rel=1e-3)


def test_the_table_finds_the_partner_that_a_search_finds():
    """The lightest of 500 vectors, most often with an m below that of the table's first row."""
    rng, table = np.random.default_rng(5), degradation_table()
    for _ in range(100):
        beta, k = rng.gamma(1.0, 1.0, 500), rng.random(500)
        lightest = beta.argmin()
        beta[[0, lightest]] = beta[[lightest, 0]]
        total = beta[0] + beta[1:]
        places = list(zip(beta[0] / total, k[1:], strict=True))
        lost = total**2 * np.array([degradation(best_h(*place), *place) for place in places])
        told = total**2 * np.array([looked_up(table, *place) for place in places])
        assert lost[told.argmin()] <= 1.001 * lost.min() + 1e-15  # the search's rounding


def test_a_coarse_search_is_near_too():
    assert max(abs(searched(m, k) - best_merge(m, k)[1]) for m, k in PAIRS) < 3e-4


def test_the_best_place_jumps_where_vectors_are_far_apart():
    """k < e^-2: on either side of m = 1/2 the other vector is all but left out."""
    assert best_h(0.499, 0.05) < 0.1 < 0.9 < best_h(0.501, 0.05)
    assert best_h(0.499, 0.5) == pytest.approx(best_h(0.501, 0.5), abs=0.02)


def test_a_merged_vector_is_the_projection_of_the_two():
    """Its coefficient is that of the nearest multiple of phi(z), and wd is the squared distance from it."""
    gamma, Z, beta = 0.3, RNG.standard_normal((2, 4)), np.array([0.7, 0.4])
    k = gaussian(Z[:1], Z[1:], gamma)[0, 0]
    m = beta[0] / beta.sum()
    h = best_h(m, k)
    z = h * Z[0] + (1 - h) * Z[1]
    projection = gaussian(z[None], Z, gamma)[0] @ beta
    assert beta.sum() * (m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h**2)) == pytest.approx(projection, rel=1e-12)
    lost = beta @ gaussian(Z, Z, gamma) @ beta - projection**2
    assert beta.sum() ** 2 * degradation(h, m, k) == pytest.approx(lost, rel=1e-9)
    assert not math.isclose(lost, 0.0)
