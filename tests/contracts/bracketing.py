"""What a solver without dual variables promises: bounds that close around the optimum, checked after every pass."""

from pathlib import Path

import numpy as np
import pytest

from streamsvm.trainer.solvers import users
from streamsvm.trainer.updates.progress import Bracket
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, Exact, exact, solving
from tests.reference.dcd import Solution, dcd
from tests.training import Outcome, train

# Those that bound the objective from both sides, and train no dual variables. (pegasos bounds it from above only.)
MODES = [{"solver": name, **way} for name in users("max_cuts") for way in ({}, {"threads": 2}, {"max_cuts": 20})]
# OCAS keeps the changes of rows along a line in float32. The lower bound, and the certificate, are of float64.
_ROUNDING = 1e-6


def check_bounds(problem: Exact, best: Solution, progress: Bracket, w, before: Bracket | None) -> None:
    """What holds after every pass."""
    assert progress.dual_objective <= best.primal * (1 + 1e-12)
    assert progress.primal_bound >= best.dual * (1 - _ROUNDING)
    assert problem.primal(w) == pytest.approx(progress.primal_bound, rel=_ROUNDING)
    assert progress.rows_unvisited == 0
    assert progress.primal_at_zero == pytest.approx(problem.C.sum())
    assert progress.pass_ == (before.pass_ + 1 if before else 1)
    if before is not None:
        assert progress.updates - before.updates == len(problem.y)
        assert progress.dual_objective >= before.dual_objective
        assert progress.primal_bound <= before.primal_bound


def check_run(run: Path, dataset: Path, passes: int, cache_bytes=SMALLEST_CACHE, C_negative=None, **settings) -> None:
    """Train for some passes and look after each; then close the generator there."""
    C, bias = settings.get("C", 1.0), settings.get("bias")
    problem = exact(dataset, 1.0, bias, C=C, C_negative=C_negative)
    best = _optimum(problem)
    with solving(run, dataset, cache_bytes, 1.0, C_negative=C_negative, **settings) as session:
        before = None
        for _ in range(passes):
            progress = next(session.passes)
            check_bounds(problem, best, progress, session.w, before)
            before = progress
        w = session.w.copy()
        session.passes.close()
        with pytest.raises(StopIteration):
            next(session.passes)
        assert w.tobytes() == session.w.tobytes()


def check_solver(mode: dict, C: float, directory: Path) -> None:
    """The contract on one random problem that is larger than the cache."""
    dataset = make_dataset(directory / "data", *random_problem())
    for passes in (1, 12):
        check_run(directory / f"run{passes}", dataset, passes, C=C, **mode)
    # CPA takes many passes where C is large.
    goal = 1e-2 if C <= 1.0 else 2e-1
    found = train(
        directory / "to the end", dataset, SMALLEST_CACHE, tolerance=None, relative_gap=goal, max_passes=5000, C=C,
        **mode,
    )  # fmt: skip
    assert found.result["stop_reason"] == "relative_gap"
    check_certificate(found, exact(dataset, C=C))


def check_certificate(found: Outcome, problem: Exact) -> None:
    """P is that of the final w, the lower bound its own; nothing is told of gradients."""
    certificate, last = found.result["certificate"], found.passes[-1]
    P, D = certificate["primal_objective"], certificate["dual_objective"]
    assert pytest.approx(problem.primal(found.w), rel=1e-12) == P
    assert last["dual_objective"] == D
    assert last["primal_bound"] == pytest.approx(P, rel=_ROUNDING)
    assert certificate["relative_duality_gap"] == pytest.approx((P - D) / P, abs=1e-15)
    best = _optimum(problem)
    assert best.primal * (1 + 1e-12) >= D
    assert best.dual <= P * (1 + 1e-12)
    unknown = [certificate[name] for name in ("m_plus", "m_minus", "gap", "w_error")]
    assert unknown == pytest.approx([float("nan")] * 4, nan_ok=True)


def _optimum(problem: Exact) -> Solution:
    """The reference has one C: a row of k times the least weight stands there k times."""
    least = float(problem.C.min())
    times = (problem.C / least).astype(int)
    return dcd(problem.X[np.repeat(np.arange(len(times)), times)], np.repeat(problem.y, times), least, tol=1e-9)
