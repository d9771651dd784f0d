"""Threads that share w: the optimum, w of alpha and alpha in its box, with more of them than there are cores."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.machine.compiled import njit
from streamsvm.trainer.checkpoints import CheckpointSlots
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.losses import LOSSES, SVM_LOSSES
from tests.contracts.problems import a_dataset, make_dataset
from tests.contracts.solver import exact, solving
from tests.training import Turns, without_axis

WAYS = [{"on_disk": True}, {"holds_all": True}, {"spill": False}]
THREADS = [2, 4, 8, 16]

# Rows with much in common: a bias, and few features. What threads add to w meets.
dataset = a_dataset(1500, 60, 15, noise=0.1)


class Checking(CheckpointSlots):
    """Wants a checkpoint whenever there may be one, and has it checked."""

    def __init__(self, check) -> None:
        super().__init__(Path(), None, inf, 0)
        self._check = check
        self.made = 0

    def is_due(self, ends_pass: bool) -> bool:
        return True

    def write(self, about, arrays, is_sure) -> None:
        self.made += 1
        self._check(without_axis(arrays["alpha"]), without_axis(arrays["w"]))


def cases():
    """Each loss in each way, with paces in turn."""
    pairs = [(loss, 16) for loss in LOSSES] + [(loss, 2) for loss in SVM_LOSSES]
    for number, (way, (loss, threads)) in enumerate(itertools.product(WAYS, pairs)):
        yield way, loss, threads, ("fixed", "adaptive")[number % 2]


@pytest.mark.parametrize(("way", "loss", "threads", "pace"), list(cases()))
def test_every_checkpoint_is_sound(tmp_path, dataset, way, threads, loss, pace):
    """No read of half an addition lasts, and none is lost for good."""
    problem = exact(dataset, loss=loss, bias=1.0)

    def check(alpha, w):
        assert np.all((alpha >= problem.lower) & (alpha <= problem.upper))
        v = problem.w_of(alpha)
        assert np.linalg.norm(w - v) <= 1e-9 * np.linalg.norm(v)

    slots, link = Checking(check), partial(Turns, clock=itertools.count().__next__)
    settings = {"loss": loss, "bias": 1.0, "pace": pace, "tolerance": None, "threads": threads, "updates_per_row": 7}
    with solving(tmp_path / "run", dataset, slots=slots, link=link, **settings, **way) as session:
        for progress in itertools.islice(session.passes, 5):
            check(session.alpha, session.w)
            assert progress.dual_objective == pytest.approx(problem.dual(session.alpha), rel=1e-9)
            assert progress.dual_objective <= problem.primal(session.w) * (1 + 1e-12)
            assert progress.rows_unvisited == 0
    assert slots.made >= 4


def test_the_two_loops_alone_lose_no_addition(tmp_path):
    """Long rows that have all features in common: without the lock w is off by a hundredth before long."""
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.standard_normal((12_000, 100)).astype(np.float32))
    y = np.where(X @ rng.standard_normal(100) + rng.standard_normal(12_000) > 0, 1.0, -1.0)
    dataset = make_dataset(tmp_path / "data", X, y)
    problem = exact(dataset)
    settings = {"spill": False, "threads": 16, "tolerance": None, "updates_per_row": 4}
    with solving(tmp_path / "run", dataset, 4 << 20, **settings) as session:
        for _ in itertools.islice(session.passes, 10):
            v = problem.X.T @ (session.alpha * problem.y)
            assert np.linalg.norm(session.w - v) <= 1e-9 * np.linalg.norm(v)


@njit(cache=True, nogil=True)
def _add_under_lock(sums, lock, count):
    for _ in range(count):
        acquire(lock)
        for k in range(sums.shape[0]):
            sums[k] += 1.0
        release(lock)


@pytest.mark.parametrize("threads", THREADS)
def test_what_is_added_under_the_lock_is_all_there(threads):
    sums, lock, count = np.zeros(50), np.zeros(1, np.int64), 20_000
    _add_under_lock(np.zeros(50), lock, 1)  # compiled
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: _add_under_lock(sums, lock, count), range(threads)))
    assert sums.tolist() == [float(threads * count)] * 50
    assert lock[0] == 0
