"""What a solver promises, whatever it is: checked after every pass, against definitions and a reference."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from streamsvm.reader.stream.process import Reader
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses import REGRESSION, SVM_LOSSES
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers import SOLVERS, make_cursor, make_source, read_settings
from streamsvm.trainer.solvers.bm import SELECT
from streamsvm.trainer.sweeps.selection import SCHEDULES
from streamsvm.trainer.updates.progress import PassProgress
from tests.contracts.objectives import PlainObjective
from tests.contracts.problems import make_dataset, random_problem, smallest_cache, stored_problem
from tests.reference.dcd import dcd
from tests.training import SMALL, Turns, open_state_of, train, without_axis, write_run

SMALLEST_CACHE = smallest_cache(400)
# The ways to train: what of a job chooses the code that runs.
_WAYS: dict[str, list[dict]] = {
    "streamsvm": [{}, {"threads": 4}, {"on_disk": True}, {"on_disk": True, "threads": 2}, {"holds_all": True}],
    "streamsvm_paper": [
        {},
        {"epsilon_start": 9.0},
        {"epsilon_decay": "sweep", "epsilon_reset": True, "epsilon_gradient": "projected"},
    ],
    "avsf": [{"schedule": name} for name in SCHEDULES],
    "bm": [{}, {"inner_rounds": None}],
    "sbm": [{"select": name} for name in SELECT],
}
MODES = [{"solver": name, **way} for name, solver in SOLVERS.items() if solver.is_dual for way in _WAYS.get(name, [{}])]

# One way of each solver: the others share most of their code with it.
PLAIN = list({mode["solver"]: mode for mode in reversed(MODES)}.values())


def is_sound(mode: dict) -> bool:
    """Whether it promises to find the optimum."""
    return mode.get("solver") != "streamsvm_paper"


def visits_all(mode: dict) -> bool:
    """Whether it promises to look at every row in every pass."""
    return is_sound(mode) and mode.get("solver", "streamsvm") in ("streamsvm", "bm", "sbm")


def is_reproducible(mode: dict) -> bool:
    """Whether a run of fixed pace is the same to the byte each time: threads that share w may run as they like."""
    return mode.get("threads", 1) == 1


def is_resident(mode: dict) -> bool:
    """Whether it needs all rows in the cache."""
    solver = SOLVERS[mode.get("solver", "streamsvm")]
    return solver.feed == "blocks" and not solver.has_blocks


def cache_for(mode: dict) -> int:
    """A cache smaller than most of the problems here, if the mode can do with it."""
    return 10 * SMALLEST_CACHE if is_resident(mode) or mode.get("holds_all") else SMALLEST_CACHE


def name_of(mode: dict) -> str:
    return "-".join(str(value) if isinstance(value, str) else f"{name}={value}" for name, value in mode.items())


def is_fast(mode: dict) -> bool:
    """Whether it converges in few passes on hard problems, too: small blocks one by one do not, where C is large."""
    return SOLVERS[mode["solver"]].feed == "steps" or mode["solver"] == "dcd"


@dataclass
class Session:
    """A solver under way: `passes` is its generator, `alpha` and `w` what it changes."""

    passes: Iterator[PassProgress]
    settings: TrainerSettings
    alpha: Array
    w: Array
    reader: Reader


@contextmanager
def solving(
    run: Path,
    dataset: Path,
    cache_bytes=None,
    positive=None,
    turns=1,
    link=Turns,
    slots=None,
    solvers=SMALL,
    **settings,
):
    """A Session in this process. `turns` is how often the reader is asked to step when the trainer waits.

    link    what the trainer gets, see tests.training.make_link
    slots   where checkpoints go, or None: nowhere
    """
    write_run(run, dataset, cache_bytes or cache_for(settings), positive, **settings)
    reader = Reader(run)
    while reader.step():
        pass
    cache = reader.cache_reader()
    chosen = read_settings(run)
    state = open_state_of(run)
    w = np.zeros(state.w.shape)

    def turn():
        for _ in range(turns):
            reader.step()

    source = make_source(make_cursor(cache, state, chosen, partial(link, turn), slots), chosen)
    passes = solvers[chosen.solver].train(chosen, source, state.alpha, w)
    try:
        yield Session(passes, chosen, without_axis(state.alpha), without_axis(w), reader)
    finally:
        passes.close()
        cache.close()
        reader.shutdown()


@dataclass
class Exact:
    """A problem in the order of row ids, with its definitions in plain numpy; those of y are its signs or numbers."""

    X: object
    y: Array
    loss: str
    C: Array  # of each row
    epsilon: float = 0.1

    @property
    def upper(self) -> Array:
        return np.full(len(self.y), np.inf) if self.loss.startswith("squared") else self.C

    @property
    def lower(self) -> Array:
        return -self.upper if self.loss in REGRESSION else np.zeros(len(self.y))

    def is_free(self, alpha) -> Array:
        return (np.abs(alpha) > 0) & (np.abs(alpha) < self.upper)

    def w_of(self, alpha) -> Array:
        return self.X.T @ (alpha if self.loss in REGRESSION else alpha * self.y)

    def _of(self, name: str, *arrays):
        return getattr(PlainObjective(self.loss, 1.0, 1.0, self.epsilon), name)(self.y, *arrays, weight=self.C)

    def primal(self, w) -> float:
        if self.loss not in SVM_LOSSES:
            return float(w @ w / 2 + self._of("losses", self._of("m", self.X @ w)))
        xi = np.maximum(0.0, 1.0 - self.y * (self.X @ w))
        return float(w @ w / 2 + self.C @ (xi if self.loss == "hinge" else xi * xi))

    def dual(self, alpha) -> float:
        v = self.w_of(alpha)
        if self.loss not in SVM_LOSSES:
            return float(self._of("dual", alpha) - v @ v / 2)
        squares = 0.0 if self.loss == "hinge" else float(np.sum(alpha * alpha / (4 * self.C)))
        return float(alpha.sum() - v @ v / 2 - squares)

    def gap(self, alpha, w) -> float:
        """M+ - M- at a frozen w."""
        if self.loss not in SVM_LOSSES:
            PG = self._of("projected_gradient", self._of("m", self.X @ w), alpha)
            return float(PG.max() - PG.min())
        G = self.y * (self.X @ w) - 1
        if self.loss == "squared_hinge":
            G += alpha / (2 * self.C)
        at_rest = ((alpha == 0) & (G >= 0)) | ((alpha == self.upper) & (G <= 0))
        PG = np.where(at_rest, 0.0, G)
        return float(PG.max() - PG.min())


def exact(dataset: Path, positive=1.0, bias=None, loss="hinge", C=1.0, C_negative=None, epsilon=0.1) -> Exact:
    X, y = stored_problem(dataset, None if loss in REGRESSION else positive, bias)
    return Exact(X, y, loss, np.where((y > 0) | (loss in REGRESSION), C, C_negative or C), epsilon)


def check_pass(problem: Exact, progress: PassProgress, alpha, w, before: PassProgress | None, mode: dict) -> None:
    """What holds after every pass."""
    size = max(1.0, abs(progress.primal_bound))
    dual = problem.dual(alpha)
    assert np.all(alpha >= problem.lower)
    assert np.all(alpha <= problem.upper)
    v = problem.w_of(alpha)
    assert np.linalg.norm(w - v) <= 1e-10 * np.linalg.norm(w)
    assert progress.dual_objective == pytest.approx(dual, rel=1e-9, abs=1e-9 * size)
    # Weak duality, of the bound it reports and of the real objectives.
    assert progress.primal_bound >= progress.dual_objective - 1e-12 * size
    assert problem.primal(w) >= dual - 1e-12 * size
    assert progress.free_rows == np.count_nonzero(problem.is_free(alpha))
    assert 0 <= progress.rows_unvisited <= len(alpha)
    if visits_all(mode):
        assert progress.rows_unvisited == 0
    if before is None:
        assert progress.pass_ == 1
        # P at w = 0, or here, if all rows are at hand.
        assert progress.primal_bound in (pytest.approx(problem.primal(0 * w)), pytest.approx(problem.primal(w)))
    else:
        assert progress.pass_ == before.pass_ + 1
        # The paper's rule takes whole segments: with few updates a row, a pass may have been paid for by those before.
        assert progress.updates >= before.updates
        assert progress.updates > before.updates or not is_sound(mode)
        assert progress.dual_objective >= before.dual_objective - 1e-12 * size
        assert progress.primal_bound <= before.primal_bound


def check_run(run: Path, dataset: Path, passes: int, cache_bytes=None, positive=None, **settings) -> None:
    """Train for some passes and look after each; then close the generator there."""
    own = {name: settings[name] for name in ("bias", "loss", "C", "C_negative") if name in settings}
    problem = exact(dataset, 1.0 if positive is None else positive, **own)
    with solving(run, dataset, cache_bytes, positive, **settings) as session:
        before = None
        for _ in range(passes):
            progress = next(session.passes)
            check_pass(problem, progress, session.alpha, session.w, before, settings)
            before = progress
        alpha, w = session.alpha.copy(), session.w.copy()
        session.passes.close()
        # Closed is closed: nothing more is done, and what there is can be published.
        with pytest.raises(StopIteration):
            next(session.passes)
        assert np.array_equal(alpha, session.alpha)
        assert np.array_equal(w, session.w)


def check_solver(mode: dict, loss: str, C: float, directory: Path) -> None:
    """The contract on one random problem that is larger than the cache."""
    X, y = random_problem()
    dataset = make_dataset(directory / "data", X, y)
    common = {**mode, "loss": loss, "C": C}
    exactly = is_sound(mode) and (is_fast(mode) or C <= 1.0)
    for passes in (1, 12):
        check_run(directory / f"run{passes}", dataset, passes, **common)
    ends = {"tolerance": None, "relative_gap": 2e-7 if exactly else 1e-2, "max_passes": 20_000}
    found = train(directory / "to the end", dataset, cache_for(mode), updates_per_row=8, **ends, **common)
    assert found.result["stop_reason"] == "relative_gap"
    check_certificate(found, exact(dataset, loss=loss, C=C))
    if loss not in SVM_LOSSES:
        return  # the certificate, which is that of plain numpy, says how near the optimum is
    problem = exact(dataset, loss=loss, C=C)
    best = dcd(problem.X, problem.y, C, loss, tol=1e-8)
    certificate = found.result["certificate"]
    tolerance = 1e-6 if exactly else 2e-2
    assert certificate["dual_objective"] == pytest.approx(best.dual, rel=tolerance)
    # The bound that stopped the run was one.
    assert found.passes[-1]["primal_bound"] >= best.dual * (1 - 1e-12)
    if exactly:
        assert certificate["primal_objective"] == pytest.approx(best.primal, rel=5e-5)


def check_certificate(found, problem: Exact) -> None:
    """The certificate is that of the final w and alpha; w is that of alpha, or a better one of Newton steps."""
    certificate = found.result["certificate"]
    assert certificate["primal_objective"] == pytest.approx(problem.primal(found.w), rel=1e-12)
    size = max(1.0, certificate["primal_objective"])
    assert certificate["dual_objective"] == pytest.approx(problem.dual(found.alpha), abs=1e-12 * size)
    assert certificate["gap"] == pytest.approx(problem.gap(found.alpha, found.w), abs=1e-9)
    v, norm = problem.w_of(found.alpha), np.linalg.norm(found.w)
    assert certificate["w_error"] * norm == pytest.approx(np.linalg.norm(found.w - v), abs=1e-10 * norm)
    has_better = found.state.control["newton_steps"] > 0 and problem.primal(found.w) < problem.primal(v)
    assert certificate["w_error"] <= 1e-10 or has_better
    P, D = certificate["primal_objective"], certificate["dual_objective"]
    assert certificate["relative_duality_gap"] == pytest.approx((P - D) / P, abs=1e-15)
