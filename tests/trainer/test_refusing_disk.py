"""A disk that refuses at any segment of any sweep: alpha stays in its box, w is alpha's, the optimum is found.

So many refusals as FAULTS says, see tests.faults.scale.
"""

import itertools
from functools import cache, partial
from math import inf
from pathlib import Path

import numpy as np
import pytest

from streamsvm.trainer.checkpoints import CheckpointSlots
from streamsvm.trainer.problem.losses import SVM_LOSSES
from tests.contracts.problems import a_dataset
from tests.contracts.solver import exact, solving
from tests.faults.scale import count
from tests.reference.dcd import Solution, dcd
from tests.trainer.disks import PLENTY, Disk, refuses
from tests.training import Turns, solvers_with, without_axis

CASES = list(itertools.product(SVM_LOSSES, [1.0, 10.0], [1, 2]))
REFUSALS = max(len(CASES), count(40, 3000))
GOAL = 1e-6  # of the optimum, how far D may be from it in the end
MOST_PASSES = 400
N_ROWS = 500


class Refusing(Disk):
    """Refuses in some way from some call on; free space may be scarce for a while only."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.kind = str(rng.choice(["read", "append", "full", "scarce", "slow", "damaged"]))
        most = {"append": 40, "full": 40, "scarce": 40}.get(self.kind, 100)
        self._at = int(rng.integers(1, most))
        self._until = self._at + int(rng.integers(1, 80))
        self._factor = rng.uniform(1.0, 4.0)
        self._looks = 0
        self.has_refused = False
        if self.kind in ("read", "append"):
            self.fails = refuses(self.kind, self._at)

    def look(self) -> int:
        self._looks += 1
        if self.kind == "full" and self._looks >= self._at:
            return self._refuse(0)
        if self.kind == "scarce" and self._at <= self._looks < self._until:
            return self._refuse(int(self._factor * self.files[0].bytes))
        return PLENTY

    def asked(self, kind: str) -> None:
        coming = self.calls[kind] + 1
        if self.kind == "slow" and kind == "read" and coming >= self._at:
            self.second = self._refuse(9.0)
        if self.kind == "damaged" and kind == "read" and coming == self._at:
            self._refuse(self.files[0].damage(0))
        if self.kind == kind and coming >= self._at:
            self._refuse(None)
        super().asked(kind)

    def _refuse(self, with_what):
        self.has_refused = True
        return with_what


class Clocked(Turns):
    """Seconds pass with the steps of the reader, one each, and with sweeps."""

    def __init__(self, sweep_seconds: float, turn, *args) -> None:
        self._now = 0.0
        self._sweep_seconds = sweep_seconds
        super().__init__(turn, *args, clock=lambda: self._now)

    def begin_step(self, step, pass_) -> None:
        self._now += 1.0
        super().begin_step(step, pass_)

    def show(self, progress) -> None:
        self._now += self._sweep_seconds
        super().show(progress)


class Looking(CheckpointSlots):
    """Asks for checkpoints at random; `look` is called whenever one might be made, `check` when one is."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(Path(), None, inf, 0)
        self._rng = rng
        self.look = self.check = lambda *_: None
        self.sweeps = 0

    def is_due(self, ends_pass: bool) -> bool:
        self.sweeps += not ends_pass
        self.look()
        return bool(self._rng.random() < 0.2)

    def write(self, about, arrays, is_sure) -> None:
        self.check(without_axis(arrays["alpha"]), without_axis(arrays["w"]))


# Several times what the cache holds.
dataset = a_dataset(N_ROWS, noise=0.1)


def survive(run: Path, dataset: Path, seed: int, loss: str, C: float, threads: int) -> tuple[bool, int]:
    """Train with a disk that refuses; whether it came to that, and after how many sweeps the optimum was found."""
    rng = np.random.default_rng((seed, 1))
    disk, looking, problem = Refusing(rng), Looking(rng), exact(dataset, loss=loss, C=C)
    link = partial(Clocked, float(rng.choice([0.25, 0.5, 1.0])))
    settings = {"loss": loss, "C": C, "pace": "adaptive", "tolerance": None, "threads": threads, "seed": seed}
    solvers = solvers_with(disk.rows)
    with solving(run, dataset, link=link, slots=looking, solvers=solvers, updates_per_row=6, **settings) as session:

        def check(alpha, w):
            """After every sweep, and of what is kept."""
            assert np.all((alpha >= 0) & (alpha <= problem.upper))
            v = problem.X.T @ (alpha * problem.y)
            assert np.linalg.norm(w - v) <= 1e-9 * np.linalg.norm(v)

        def look():
            check(session.alpha, session.w)

        looking.look, looking.check = look, check
        best = _best(dataset, loss, C)
        for progress in itertools.islice(session.passes, MOST_PASSES):
            check(session.alpha, session.w)
            D = problem.dual(session.alpha)
            assert progress.dual_objective == pytest.approx(D, rel=1e-9)
            assert best.primal * (1 + 1e-12) >= D
            assert progress.primal_bound >= best.dual * (1 - 1e-12)
            if best.dual * (1 - GOAL) <= D:
                break
        assert best.dual * (1 - GOAL) <= D
    assert all(file.is_closed for file in disk.files)
    return disk.has_refused, looking.sweeps


@cache
def _best(dataset: Path, loss: str, C: float) -> Solution:
    problem = exact(dataset, loss=loss, C=C)
    return dcd(problem.X, problem.y, C, loss, tol=1e-8)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "-".join(map(str, CASES[number])))
def test_a_disk_that_refuses_costs_time_only(tmp_path, dataset, number):
    found = [
        survive(tmp_path / str(seed), dataset, seed, *CASES[number]) for seed in range(number, REFUSALS, len(CASES))
    ]
    # It was one that refused, and most came to it in the middle of sweeps.
    assert np.mean([has_refused for has_refused, _ in found]) >= 0.5
    assert max(sweeps for _, sweeps in found) > 10
