"""Compares decision values of kernel machines with numpy's sums over differences of features."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from streamsvm.storage.models.decision import KernelMachine, squared_norm
from tests.machines import machine_of, numpys_values, random_machine, random_matrix, rows_of, vectors_of


def values_of(model, X):
    return KernelMachine(model.vectors, model.w).decision_values(rows_of(X, model.index_base))


@pytest.mark.parametrize("labels", [(3.0, -2.0), (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("n_vectors", [1, 16, 19, 200])
@pytest.mark.parametrize("base", [0, 1])
def test_decision_values_are_those_of_numpy(base, n_vectors, labels):
    model, X = random_machine(n_vectors, labels=labels, base=base), random_matrix(600, 12)
    np.testing.assert_allclose(values_of(model, X), numpys_values(model, X), rtol=1e-13, atol=1e-13)


def test_a_feature_that_no_vector_has_is_part_of_the_distance():
    model, X = random_machine(), random_matrix(50, 30)
    expected = numpys_values(model, X)
    np.testing.assert_allclose(values_of(model, X), expected, rtol=1e-13, atol=1e-13)
    assert np.abs(expected - numpys_values(model, X[:, :12])).max() > 0.1


@pytest.mark.parametrize("scale", [1e2, 1e30])
def test_far_from_all_vectors_the_value_is_zero(scale):
    model = random_machine()
    assert not values_of(model, random_matrix(20, 12, density=1.0) * np.float32(scale)).any()


def test_a_value_that_nearly_underflows_is_not_0():
    model = machine_of(random_matrix(1, 1, density=1.0) * 0, [1.0], gamma=730.0)
    (value,) = values_of(model, rows(1.0))
    assert 0.0 < value < 1e-300 and value == pytest.approx(np.exp(-730.0), rel=1e-10)


def rows(value):
    X = random_matrix(1, 1, density=1.0)
    X.data[:] = value
    return X


def test_no_digits_are_lost_near_vectors():
    """|z - x|^2 is computed as a small difference of large squares."""
    Z = random_matrix(5, 8, density=1.0)
    Z.data += 100
    model = machine_of(Z, np.ones(5), gamma=1.0)
    np.testing.assert_allclose(values_of(model, Z), numpys_values(model, Z), rtol=1e-9)


def test_no_rows_no_vectors_and_empty_ones():
    model = random_machine()
    assert values_of(model, random_matrix(0, 12)).shape == (0,)
    assert values_of(random_machine(0), random_matrix(3, 12)).tolist() == [0.0] * 3
    empty = machine_of(random_matrix(2, 0), [0.5, 0.25])
    assert values_of(empty, random_matrix(3, 0)).tolist() == [0.75] * 3


def test_threads_share_a_machine():
    model, X = random_machine(), random_matrix(3000, 12)
    machine, shared_rows = KernelMachine(model.vectors, model.w), rows_of(X)
    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(machine.decision_values, [shared_rows] * 8))
    assert all(each.tobytes() == every[0].tobytes() for each in every)


@pytest.mark.parametrize("labels", [(3.0, -2.0), (1.0, 2.0, 3.0)])
def test_the_norm_is_a_sum_over_pairs(labels):
    model = random_machine(labels=labels)
    K = rbf_kernel(vectors_of(model), gamma=model.vectors.gamma)
    w = np.atleast_2d(model.w)
    assert squared_norm(model.vectors, model.w) == pytest.approx(np.trace(w @ K @ w.T), rel=1e-12)
