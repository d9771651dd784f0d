"""The exact line search: least of all, on any number of threads, with any number of breakpoints."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.trainer.solvers import line_search as module
from streamsvm.trainer.solvers.line_search import Line
from tests.reference.cutting_planes import line_search


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(2) as executor:
        yield executor


# Few distinct values, so that breakpoints coincide; powers of two times small integers, so that no slope is rounded.
row = st.tuples(st.integers(-8, 8).map(lambda v: v / 4), st.integers(-8, 8).map(lambda v: v / 2))


def objective(c, B, inner, square, k) -> float:
    return inner * k + square * k * k / 2 + float(np.maximum(0.0, c + k * B.astype(float)).sum())


def brute_force(c, B, inner, square) -> float:
    """The least value: between two breakpoints f is a parabola, which has its least value inside or at an end."""
    moves = B != 0
    ends = np.unique([0.0, *(-c[moves] / B[moves]).clip(0.0).tolist()])
    values = [objective(c, B, inner, square, k) for k in ends]
    for low, high in zip(ends, [*ends[1:], np.inf], strict=True):
        inside = low + 1.0 if high == np.inf else (low + high) / 2
        slope = inner + float(B[c + inside * B > 0].astype(float).sum())
        values.append(objective(c, B, inner, square, np.clip(-slope / square, low, high)))
    return min(values)


def line(pool, c, B, inner, square) -> Line:
    return Line(np.array(c, float), np.array(B, np.float32), inner, square, pool)


@pytest.mark.parametrize("most_sorted", [0, 2, 1000])
@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=12), st.integers(-8, 8), st.integers(1, 8))
def test_nothing_on_the_line_is_less(pool, most_sorted, rows, inner, square):
    c, B = np.array(rows).T
    B = B.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_SORTED", most_sorted)
        patch.setattr(module, "PART_ROWS", 3)
        k = line(pool, c, B, inner / 4, square / 8).minimum()
    least = brute_force(c, B, inner / 4, square / 8)
    assert k >= 0.0
    assert objective(c, B, inner / 4, square / 8, k) == pytest.approx(least, rel=1e-12, abs=1e-12)


def random_line(seed, n=20_000):
    rng = np.random.default_rng(seed)
    c, B = rng.normal(0.5, 1.0, n), rng.normal(-0.1, 1.0, n).astype(np.float32)
    return c, B, rng.normal() * n / 10, n * 10.0 ** rng.integers(-6, 2)


@pytest.mark.parametrize("seed", range(10))
def test_as_the_walk_over_all_breakpoints(pool, seed):
    c, B, inner, square = random_line(seed)
    found = line(pool, c, B, inner, square).minimum()
    assert found == pytest.approx(line_search(c, B.astype(float), inner, square), rel=1e-10)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(module, "PART_ROWS", 1000)
    found = []
    for threads in (1, 2, 7):
        with ThreadPoolExecutor(threads) as executor:
            c, B, inner, square = random_line(1)
            search = line(executor, c, B, inner, square)
            found.append((search.minimum(), search.move(0.25)))
    assert len(set(found)) == 1


def test_the_minimum_may_be_at_a_jump_inside_a_parabola_beyond_one_or_at_the_start(pool):
    # One row, f(k) = k^2/2 + 4 max(0, 1 - k/2): its slope turns at the jump, k = 2, from 0 to 2.
    assert line(pool, [4.0], [-2.0], 0.0, 0.5).minimum() == 2.0
    assert line(pool, [4.0], [-2.0], 0.0, 2.0).minimum() == 1.0
    assert line(pool, [4.0], [-2.0], -10.0, 0.5).minimum() == 20.0
    assert line(pool, [4.0], [-2.0], 2.0, 0.5).minimum() == 0.0
    assert line(pool, [4.0], [0.0], 0.0, 0.0).minimum() == 0.0


def test_move_leads_along_the_line_and_tells_the_losses(pool):
    c, B, inner, square = random_line(3)
    search = line(pool, c.copy(), B, inner, square)
    assert search.move(0.5) == pytest.approx(np.maximum(0.0, c + 0.5 * B.astype(float)).sum(), rel=1e-12)
    assert search.move(0.25) == pytest.approx(np.maximum(0.0, c + 0.75 * B.astype(float)).sum(), rel=1e-12)
