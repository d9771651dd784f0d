"""Dot products and sums of the same rows, against dense ones."""

import numpy as np
import pytest

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.kernels import columns


@pytest.mark.parametrize("width", [60, LARGE_W + 60])
@pytest.mark.parametrize("seed", range(5))
def test_dots_with_w_and_sums_into_v(width, seed):
    rows = columns(seed=seed)
    indptr, values, indices = rows.indptr, rows.values, (rows.indices + (width - 60)).astype(np.int32)
    n = len(indptr) - 1
    dense = np.zeros((n, width))
    for i in range(n):
        dense[i, indices[indptr[i] : indptr[i + 1]]] = values[indptr[i] : indptr[i + 1]]
    rng = np.random.default_rng(seed)
    w, v = rng.standard_normal((2, width))
    coefficient = np.where(rng.random(n) < 0.5, 0.0, rng.standard_normal(n))
    pairs, dots = np.stack([w, v], axis=1), np.empty(n)
    dots_and_sums(coefficient, indptr, indices, values, pairs.reshape(-1), dots)
    assert dots == pytest.approx(dense @ w, rel=1e-9, abs=1e-12)
    assert np.array_equal(pairs[:, 0], w)
    assert pairs[:, 1] == pytest.approx(v + dense.T @ coefficient, rel=1e-9, abs=1e-12)
