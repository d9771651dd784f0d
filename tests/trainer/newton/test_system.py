"""Systems of features and of rows, against numpy's solution of (I + sum_i h_i x_i x_i') d = -g."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.rows.csr import INDEX, VALUE
from streamsvm.storage.rows.segment import OFFSET, Segment
from streamsvm.trainer.newton import system
from streamsvm.trainer.newton.system import (
    Iterated,
    Kind,
    OfFeatures,
    OfRows,
    TooLarge,
    kind_of,
    no_matter,
    solve_positive,
)


def segment(X, rng=None):
    """Rows as a segment; with `rng`, the values of each in random order."""
    X = sparse.csr_matrix(X)
    indices, values = X.indices.copy(), X.data.copy()
    for begin, end in zip(X.indptr, X.indptr[1:], strict=False):
        order = slice(None) if rng is None else rng.permutation(end - begin)
        indices[begin:end], values[begin:end] = indices[begin:end][order], values[begin:end][order]
    return Segment.unlabelled(
        np.zeros(X.shape[0]), X.indptr.astype(OFFSET), indices.astype(INDEX), values.astype(VALUE)
    )  # fmt: skip


def direction(own, X, h, g, per_segment=9, rng=None, go_on=no_matter):
    """What a system of rows with h > 0 answers, given some rows at a time."""
    for number, begin in enumerate(range(0, len(X), per_segment)):
        some = slice(begin, begin + per_segment)
        picked = np.flatnonzero(h[some]).astype(np.int32)
        if len(picked):
            own.add(number % own.n_sums, segment(X[some], rng), picked, h[some][picked])
    return own.solve(g, go_on)


def exact(X, h, g):
    return -np.linalg.solve(np.eye(X.shape[1]) + (X.T * h) @ X, g)


def problem(n, d, density, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < density)).astype(VALUE).astype(float)
    return X, rng.choice([0.0, 0.3, 20.0], n), rng.standard_normal(d)


@pytest.mark.parametrize("kind", [OfFeatures, OfRows])
@pytest.mark.parametrize(("n", "d", "density"), [(60, 8, 1.0), (60, 40, 0.05), (20, 50, 0.3), (1, 3, 1.0), (5, 1, 1.0)])
def test_it_is_solved(kind, n, d, density):
    X, h, g = problem(n, d, density)
    for rng in (None, np.random.default_rng(1)):  # the features of a row may come in any order
        np.testing.assert_allclose(direction(kind(d), X, h, g, rng=rng), exact(X, h, g), rtol=1e-9, atol=1e-12)


def test_sparse_rows_and_dense_ones_add_up_alike(monkeypatch):
    X, h, g = problem(60, 12, 0.5)
    found = []
    for pays in (0.0, np.inf):  # every row by the kernel, and by BLAS
        monkeypatch.setattr(system, "DENSE_PAYS", pays)
        monkeypatch.setattr(system, "BATCH_BYTES", 320)  # three rows at a time
        found.append(direction(OfFeatures(12), X, h, g))
        np.testing.assert_allclose(found[-1], exact(X, h, g), rtol=1e-9)
    assert found[0].tobytes() != found[1].tobytes()


def test_a_large_matrix_has_one_sum(monkeypatch):
    monkeypatch.setattr(system, "_SMALL_BYTES", 8 * 11**2)
    X, h, g = problem(60, 12, 0.5)
    assert (OfFeatures(11).n_sums, OfFeatures(12).n_sums) == (system.SUMS, 1)
    np.testing.assert_allclose(direction(OfFeatures(12), X, h, g), exact(X, h, g), rtol=1e-9)


@pytest.mark.parametrize("kind", [OfFeatures, OfRows, lambda width: Iterated(width, 1)])
def test_no_row_with_h_leaves_the_gradient(kind):
    X, h, g = problem(10, 4, 1.0)
    np.testing.assert_array_equal(direction(kind(4), X, 0.0 * h, g), -g)
    np.testing.assert_array_equal(kind(4).solve(g), -g)


def test_the_smaller_system_is_taken_and_none_that_is_too_large():
    assert kind_of(10, 10) is Kind.FEATURES
    assert kind_of(10, 9) is kind_of(system._FEW, 0) is Kind.FEATURES  # quicker all the same
    assert (
        kind_of(system._FEW + 1, 9)
        is kind_of(10, 2, most=9)
        is kind_of(10**7, system.LARGEST)
        is kind_of(10**7, 0)
        is Kind.ROWS
    )
    assert kind_of(system.LARGEST + 1, system.LARGEST + 1) is Kind.ITERATED
    assert kind_of(100, 100, most=100) is Kind.FEATURES
    with pytest.raises(TooLarge):
        kind_of(101, 101, most=100)


@pytest.mark.parametrize("n_rows", [12, 60])
def test_a_direction_by_iterations_is_near_the_exact_one(n_rows):
    X, h, g = problem(n_rows, 40, 0.3)
    d, wanted = direction(Iterated(40, 1), X, h, g), exact(X, h, g)
    residual = d + (X.T * h) @ (X @ d) + g
    assert np.linalg.norm(residual) <= 1e-2 * np.linalg.norm(g)
    # As far down as the exact one, but for little: phi along d has the slope g'd and the curvature -g'd.
    assert g @ wanted <= g @ d < 0.9 * (g @ wanted) < 0.0


def test_rows_that_would_take_too_much_memory_are_refused(monkeypatch):
    X, h, g = problem(60, 12, 0.5)
    values = int((X[h > 0] != 0).sum())
    monkeypatch.setattr(system, "_ITERATED_BYTES", 12 * 5 * values)
    direction(Iterated(12, 2), X, h, g)
    with pytest.raises(TooLarge):
        direction(Iterated(12, 3), X, h, g)


@pytest.mark.parametrize(("kind", "least"), [(OfFeatures, 1), (OfRows, 5), (lambda width: Iterated(width, 1), 4)])
def test_what_takes_long_says_so_before_and_ends_if_it_has_to(kind, least, monkeypatch):
    monkeypatch.setattr(system, "_PRODUCT_ROWS", 10)
    monkeypatch.setattr(system, "_MOMENT_SECONDS", 0.0)
    X, h, g = problem(60, 40, 0.3)
    h[36:], h[:36] = 0.0, np.geomspace(1.0, 1e3, 36)
    told = []
    wanted = direction(kind(40), X, h, g)
    np.testing.assert_array_equal(direction(kind(40), X, h, g, go_on=told.append), wanted)
    assert len(told) >= least and all(seconds > 0.0 for seconds in told)

    for number in range(len(told)):
        left = iter(range(number))
        with pytest.raises(StopIteration):
            direction(kind(40), X, h, g, go_on=lambda _, left=left: next(left))


@pytest.mark.parametrize("kind", [OfFeatures, OfRows])
def test_rows_of_several_machines_make_one_system(kind):
    """Each machine's comes pickled; its h is some times what it is in the whole problem."""
    X, h, g = problem(60, 12, 0.5)
    parts = []
    for some in (slice(0, 20), slice(20, 45), slice(45, 60)):
        own = kind(12)
        for place, begin in enumerate(range(0, len(X[some]), 9)):
            rows, each = X[some][begin : begin + 9], 3.0 * h[some][begin : begin + 9]
            picked = np.flatnonzero(each).astype(np.int32)
            own.add(place % own.n_sums, segment(rows), picked, each[picked])
        own.scale(1.0 / 3.0)
        parts.append(pickle.loads(pickle.dumps(own)))
    for other in parts[1:]:
        parts[0].merge(other)
    np.testing.assert_allclose(parts[0].solve(g), exact(X, h, g), rtol=1e-9)


DEGENERATE = ["equal columns", "constant columns", "scales", "equal rows", "all"]


@pytest.mark.parametrize(
    ("kind", "degenerate"),
    # A system of rows loses what is smaller than rounding of g: not so where all columns are of one scale.
    [*((OfFeatures, each) for each in DEGENERATE), *((OfRows, each) for each in (*DEGENERATE[:2], "equal rows"))],
)
def test_degenerate_rows_make_a_direction_that_descends_and_solves(kind, degenerate):
    X, h, g = problem(40 if kind is OfFeatures else 12, 12, 1.0, seed=2)
    h *= 1e4
    if degenerate in ("equal columns", "all"):
        X[:, 6:9] = X[:, [0]]
    if degenerate in ("constant columns", "all"):
        X[:, 9:11] = 1.0
    if degenerate in ("scales", "all"):
        X *= 10.0 ** np.linspace(0, 6, 12)
    if degenerate in ("equal rows", "all"):
        X[7:] = X[5]
    X = X.astype(VALUE).astype(float)
    g = X.T @ (h * g[0])  # a gradient of rows, as steps have
    d = direction(kind(12), X, h, g)
    residual = d + (X.T * h) @ (X @ d) + g
    # In units of each feature: rounding of one that is 1e6 as large is not held against the others.
    scale = np.sqrt(1.0 + h @ X**2)
    assert np.linalg.norm(residual / scale) <= 1e-5 * np.linalg.norm(g / scale)
    assert g @ d < 0.0


def test_a_singular_matrix_is_given_a_ridge():
    A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1e12]])
    told = []
    x = solve_positive(np.asfortranarray(A), np.array([2.0, 2.0, 1e12]), told.append)
    assert len(told) > 1  # each factorisation may take long
    np.testing.assert_allclose(A @ x, [2.0, 2.0, 1e12], rtol=1e-9)


def test_only_the_lower_half_counts():
    A = np.array([[4.0, 1.0], [1.0, 3.0]])
    lower = np.asfortranarray(np.tril(A))
    np.testing.assert_allclose(solve_positive(lower, np.array([1.0, 2.0])), np.linalg.solve(A, [1.0, 2.0]))
