"""Compares the kernels that reader and trainer share with dense numpy."""

import numpy as np
import pytest

from streamsvm.storage.rows import csr
from tests.storage.rows import make_rows, random_rows

WIDTH = 30


@pytest.fixture
def rows():
    sample = random_rows(50, longest=9, largest=WIDTH)
    for array in (sample.indptr, sample.indices, sample.values):
        array.setflags(write=False)
    return sample


def dense(rows):
    X = np.zeros((len(rows), WIDTH))
    for i in range(len(rows)):
        stored = slice(rows.indptr[i], rows.indptr[i + 1])
        X[i, rows.indices[stored]] = rows.values[stored]
    return X


def test_squared_norms_are_exact_to_double_precision(rows):
    out = np.full(len(rows), np.nan)
    csr.squared_norms(rows.indptr, rows.values, out)
    assert out == pytest.approx((dense(rows) ** 2).sum(axis=1), rel=1e-14, abs=0)


def test_squared_norm_of_a_large_value_is_finite():
    rows = make_rows([{1: 1e30}, {1: 1e-30}])
    out = np.empty(2)
    csr.squared_norms(rows.indptr, rows.values, out)
    assert out == pytest.approx([1e60, 1e-60], rel=1e-6, abs=0)


def test_row_dots(rows):
    w = np.random.default_rng(0).standard_normal(WIDTH)
    out = np.full(len(rows), np.nan)
    csr.row_dots(rows.indptr, rows.indices, rows.values, w, out)
    assert out == pytest.approx(dense(rows) @ w, rel=1e-12, abs=1e-12)
    # Features beyond w add nothing.
    csr.row_dots(rows.indptr, rows.indices, rows.values, w[:20], out)
    assert out == pytest.approx(dense(rows)[:, :20] @ w[:20], rel=1e-12, abs=1e-12)


def test_add_rows(rows):
    rng = np.random.default_rng(0)
    w, coefficient = rng.standard_normal(WIDTH), rng.standard_normal(len(rows)) * (np.arange(len(rows)) % 3)
    expected = w + dense(rows).T @ coefficient
    csr.add_rows(coefficient, rows.indptr, rows.indices, rows.values, w)
    assert w == pytest.approx(expected, rel=1e-12, abs=1e-12)
