"""What the benches of kernel machines compute, on problems small enough to do it again in numpy."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from streamsvm.storage.models.support_vectors import SupportVectors
from tests.bench import jobs
from tests.bench.machines.bumps import FLIPPED, bumps
from tests.bench.machines.choose import best
from tests.bench.machines.data import HELD_OUT, Problem, parted
from tests.bench.machines.machine import Machine, rows_of
from tests.contracts.problems import random_problem

C, GAMMA = 4.0, 0.5


@pytest.fixture(scope="module")
def small():
    X, y = random_problem(300)
    return Problem("small", X.sorted_indices(), y, X[:100].sorted_indices(), y[:100], C, GAMMA)


@pytest.fixture(scope="module")
def done(small, tmp_path_factory):
    dataset = jobs.ingested(tmp_path_factory.mktemp("bench") / "dataset", small.X, small.y)
    return jobs.train(dataset, solver="bsca", C=C, gamma=GAMMA, budget=50, tolerance=None, max_passes=5)


@pytest.fixture(scope="module")
def machine(small):
    rows = rows_of(small.X[:40])
    vectors = SupportVectors(GAMMA, small.X.shape[1], rows.indptr, rows.indices, rows.values)
    return Machine(vectors, small.y[:40] * np.linspace(0.1, C, 40))


def test_a_machine_decides_by_its_kernel_values(small, machine):
    f = rbf_kernel(small.X, small.X[:40], gamma=GAMMA) @ machine.beta
    assert machine.decision_values(small.X) == pytest.approx(f, abs=1e-5)
    assert machine.accuracy(small.X, small.y) == np.mean(np.sign(f) == small.y)
    half = machine.beta @ rbf_kernel(small.X[:40], gamma=GAMMA) @ machine.beta / 2
    P = half + C * np.maximum(0.0, 1.0 - small.y * f).sum()
    assert machine.primal(small.X, small.y, C) == pytest.approx(P, rel=1e-5)


def test_the_machine_of_a_job_is_the_one_that_it_certifies(small, done):
    assert len(done.machine) == done.passes[-1]["support_vectors"] == 50
    assert done.machine.primal(small.X, small.y, C) == pytest.approx(done.certificate["primal_objective"], rel=1e-9)


def test_bumps_are_the_same_for_all_seeds_and_no_plane_tells_them_apart():
    (X, y), (X_test, y_test) = bumps(3000), bumps(1000, seed=1)
    assert X.shape == (3000, 18)
    assert X.data.min() > 0
    assert X.data.max() <= 1
    assert not np.array_equal(X[:1000].toarray(), X_test.toarray())
    assert np.array_equal(bumps(3000)[1], y)
    assert 0.35 < np.mean(y > 0) < 0.65
    rbf, linear = (SVC(C=4.0, gamma=4.0, kernel=kernel).fit(X, y).score(X_test, y_test) for kernel in ("rbf", "linear"))
    assert 1 - FLIPPED > rbf > linear + 0.08


def test_rows_held_out_are_not_trained_on(small):
    numbered = np.arange(300.0)
    (X, own), (X_test, held_out) = parted(small.X, numbered)
    assert sorted([*own, *held_out]) == numbered.tolist()
    assert len(held_out) == round(300 * HELD_OUT) == X_test.shape[0]
    assert (small.X[own.astype(int)] != X).nnz == 0


def test_the_best_pair_is_the_simplest_of_those_as_good():
    assert best([(4.0, 1.0, 0.9), (1.0, 2.0, 0.9), (1.0, 1.0, 0.9), (1.0, 4.0, 0.8)]) == (1.0, 1.0)
