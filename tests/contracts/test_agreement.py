"""All exact solvers find the same dual objective, to 1e-6 of it, and it is LIBLINEAR's where that converges.

Each runs until D has stopped to rise: the certified gap is further off than D is, where C is large.

Where C is large and no plane separates the classes, coordinate descent takes too long for this, LIBLINEAR's too: dual
variables grow in proportion to C, a step to them does not, and so passes do. On 300 noisy rows `dcd` takes 61, 2,700
and 26,000 of them to 1e-6 at C = 1, 10 and 100; on dna at C = 1000 it is 4% below the optimum after 36,000. A path over
C is shorter. There the cutting planes are held against the optimum, which is that of an interior point method.
"""

from itertools import islice

import numpy as np
import pytest

from streamsvm.trainer.solvers import SOLVERS
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import solving
from tests.reference import data, liblinear
from tests.reference.optima import reference
from tests.training import train

WAYS = {
    "streamsvm": {"updates_per_row": 8},
    "dcd": {},
    "avsf": {},
    "bm": {"n_blocks": 2, "inner_rounds": 100},
    "sbm": {"n_blocks": 3, "inner_rounds": 100},
}
# Who evicts at random may miss rows.
EXACT = [name for name, solver in SOLVERS.items() if solver.is_dual and solver.evicts == "score"]
COSTS = [1e-3, 1.0, 1e3]


def test_every_exact_solver_takes_part():
    assert set(WAYS) == set(EXACT)


def found_by(solver, directory, dataset, C, **limits):
    way = {"tolerance": 1e-5, "max_passes": 20_000, **limits, **WAYS[solver]}
    return train(directory / solver, dataset, 64 << 20, solver=solver, C=C, **way).result["certificate"]


@pytest.mark.parametrize("C", COSTS)
def test_random_problems(tmp_path, C):
    X, y = random_problem(150, 200, 15)
    best = reference(X.astype(float), y, C, 1e-9)
    assert best.gap <= 1e-8
    dataset = make_dataset(tmp_path / "data", X, y)
    for solver in EXACT:
        found = found_by(solver, tmp_path, dataset, C)
        assert found["dual_objective"] == pytest.approx(best.dual, rel=1e-6), solver
    if C <= 1.0:  # LIBLINEAR gives up after 300 passes
        assert liblinear.train(X, y, C, eps=1e-7).primal == pytest.approx(best.primal, rel=1e-6)


def test_a_path_over_C_reaches_the_optimum_of_a_large_one(tmp_path):
    """Each C begins with what the one before it found, scaled: a cold start takes three times as long."""
    X, y = random_problem(300, 12, 8, noise=0.2)
    dataset = make_dataset(tmp_path / "data", X, y)
    alpha, w = np.zeros(300), None
    for C in (1.0, 10.0, 100.0):
        best = reference(X.astype(float), y, C, 1e-7).dual
        settings = {"solver": "dcd", "C": C, "tolerance": 1e-6}
        with solving(tmp_path / f"C = {C:g}", dataset, 4 << 20, 1.0, **settings) as session:
            if w is not None:
                session.alpha[:], session.w[:] = np.minimum(10.0 * alpha, C), 10.0 * w
            for progress in islice(session.passes, 15_000):
                if progress.dual_objective >= best * (1 - 1e-6):
                    break
            assert progress.dual_objective == pytest.approx(best, rel=1e-6)
            alpha, w = session.alpha.copy(), session.w.copy()


@pytest.mark.parametrize("C", COSTS)
def test_squared_hinge_is_that_of_liblinears_newton_method(tmp_path, C):
    """It has no cap on passes that it would meet."""
    X, y = random_problem(150, 200, 15)
    best = liblinear.train(X, y, C, eps=1e-9, loss="squared_hinge", solver=2).primal
    dataset = make_dataset(tmp_path / "data", X, y)
    for solver in EXACT:
        found = found_by(solver, tmp_path, dataset, C, loss="squared_hinge")
        assert found["dual_objective"] == pytest.approx(best, rel=1e-6), solver
        assert found["primal_objective"] == pytest.approx(best, rel=1e-6), solver


# Where coordinate descent gets to 1e-6 in minutes, in blocks too.
REAL = [
    *(("mushrooms", C) for C in COSTS),
    ("dna", 1e-3),
    ("dna", 1.0),
    ("imdb.train", 1e-3),
    ("imdb.train", 1.0),
    ("a9a", 1e-3),
]


def real_problem(name):
    if name == "dna":
        X, y = data.load("dna")
        return X, data.one_vs_rest(y, 3)
    X, y = data.load_binary(name)
    few = np.random.default_rng(0).permutation(len(y))[:5000] if name == "imdb.train" else np.arange(len(y))
    return X[few], y[few]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "C"), REAL)
def test_real_data(tmp_path, name, C):
    data.require(name)
    X, y = real_problem(name)
    X = X.astype(np.float32)
    dataset = make_dataset(tmp_path / "data", X, y)
    limits = {"max_seconds": 120.0, "tolerance": None, "relative_gap": 2e-7}
    found = {solver: found_by(solver, tmp_path, dataset, C, **limits) for solver in EXACT}
    best = reference(X.astype(float), y, C, 1e-7).dual
    assert {solver: one["dual_objective"] for solver, one in found.items()} == pytest.approx(
        dict.fromkeys(EXACT, best), rel=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "C"), [*REAL, ("dna", 1e3)])
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name in ("cpa", "ocas")])
def test_cutting_planes_bracket_the_optimum(tmp_path, solver, name, C):
    data.require(name)
    X, y = real_problem(name)
    X = X.astype(np.float32)
    best = reference(X.astype(float), y, C, 1e-7)
    assert best.gap <= 1e-6
    dataset = make_dataset(tmp_path / "data", X, y)
    found = train(tmp_path / "run", dataset, 64 << 20, solver=solver, C=C, tolerance=None, max_passes=60)
    bounds = [(done["dual_objective"], done["primal_bound"]) for done in found.passes]
    assert all(below <= best.primal * (1 + 1e-12) and best.dual <= above * (1 + 1e-6) for below, above in bounds)
    assert bounds[-1][0] > 0.0
