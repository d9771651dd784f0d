"""The certificate of a final w and alpha: its sums, P, D, and that D is a lower bound whatever alpha it is given."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.reader.certificate.final_pass import CertificatePass
from streamsvm.storage.errors import RowsMissing
from streamsvm.storage.rows.csr import LARGE_W
from streamsvm.storage.rows.segment import SegmentBuilder, view
from streamsvm.trainer.problem.losses import LOSSES, REGRESSION
from tests.contracts.kernels import columns
from tests.contracts.objectives import C, numbered_rows, objective_of

WIDTH = 60
rows_of = partial(numbered_rows, seed=1)


@pytest.fixture(params=LOSSES)
def problem(request):
    """(loss, objective, rows, w): rows with the ids 0 .. n - 1."""
    rows = rows_of(request.param)
    return request.param, objective_of(request.param), rows, np.full((WIDTH, 1), 0.1)


def certificate(objective, rows, w, alpha):
    certifying = CertificatePass(objective, w, alpha[:, np.newaxis])
    certifying.add(rows)
    return certifying.result()


def bounds(loss, rows):
    """Lowest and highest alpha (n,), spelt out."""
    highest = np.full(len(rows), np.inf)
    if loss in ("hinge", "logistic"):
        highest = np.where(rows.class_code == 0, C[1], C[-1])
    if loss == "epsilon_insensitive":
        highest[:] = C[1]
    return (-highest if loss in REGRESSION else np.zeros(len(rows))), highest


def test_alpha_out_of_its_bounds_counts_as_the_nearest_inside(problem):
    loss, objective, rows, w = problem
    alpha = np.random.default_rng(0).normal(0.5, 3.0, len(rows))
    lowest, highest = bounds(loss, rows)
    inside = np.minimum(np.maximum(alpha, lowest), highest)
    assert np.any(inside != alpha) or loss == "squared_epsilon_insensitive"
    found = certificate(objective, rows, w, alpha)
    assert found == certificate(objective, rows, w, inside)
    assert found.dual_objective <= found.primal_objective


def test_threads_that_share_a_pass_find_the_same(problem):
    loss, objective, rows, w = problem
    lowest, highest = bounds(loss, rows)
    alpha = np.clip(np.random.default_rng(0).normal(0.5, 1.0, len(rows)), lowest, highest)
    certifying = CertificatePass(objective, w, alpha[:, np.newaxis])
    builder, parts = SegmentBuilder(1 << 20), []
    for begin in range(7):
        builder.add(rows, np.arange(begin, len(rows), 7))
        parts.append(view(builder.take()))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(certifying.add, parts))
    alone, shared = (
        {name: float(value[0]) for name, value in vars(each).items()}
        for each in (certificate(objective, rows, w, alpha), certifying.result())
    )
    assert shared == pytest.approx(alone, rel=1e-12)


def test_alpha_itself_stays(problem):
    _, objective, rows, w = problem
    alpha = np.linspace(-5.0, 5.0, len(rows))
    certificate(objective, rows, w, alpha)
    assert np.array_equal(alpha, np.linspace(-5.0, 5.0, len(rows)))


def test_missing_rows_are_noticed(problem):
    _, objective, rows, w = problem
    with pytest.raises(RowsMissing, match=f"{len(rows)} rows .* {len(rows) + 1}"):
        certificate(objective, rows, w, np.zeros(len(rows) + 1))
    with pytest.raises(RowsMissing):
        CertificatePass(objective, w, np.zeros((len(rows), 1))).result()


def test_rows_that_come_twice_are_noticed(problem):
    _, objective, rows, w = problem
    certifying = CertificatePass(objective, w, np.zeros((len(rows), 1)))
    for _ in range(2):
        certifying.add(rows)
    with pytest.raises(RowsMissing):
        certifying.result()


@pytest.mark.parametrize(("width", "seed"), [*((60, seed) for seed in range(4)), (LARGE_W + 60, 4)])
def test_dots_with_w_and_sums_into_v(width, seed):
    rows = columns(seed=seed)
    indptr, values, indices = rows.indptr, rows.values, (rows.indices + (width - 60)).astype(np.int32)
    n = len(indptr) - 1
    X = sparse.csr_matrix((values.astype(np.float64), indices, indptr), (n, width))
    rng = np.random.default_rng(seed)
    w, v = rng.standard_normal((2, width))
    coefficient = np.where(rng.random(n) < 0.5, 0.0, rng.standard_normal(n))
    pairs, dots = np.stack([w, v], axis=1), np.empty(n)
    dots_and_sums(coefficient, indptr, indices, values, pairs.reshape(-1), dots)
    np.testing.assert_allclose(dots, X @ w, rtol=1e-9, atol=1e-12)
    assert np.array_equal(pairs[:, 0], w)
    np.testing.assert_allclose(pairs[:, 1], v + X.T @ coefficient, rtol=1e-9, atol=1e-12)
