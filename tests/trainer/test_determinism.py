"""With `pace: "fixed"` a run is a function of data, settings and seed: who is faster changes no bit."""

import itertools
from dataclasses import replace

import pytest

from tests.contracts.problems import a_dataset
from tests.contracts.solver import MODES, is_reproducible, name_of, solving
from tests.training import Turns

PASSES = 4
REPRODUCIBLE = [mode for mode in MODES if is_reproducible(mode)]

dataset = a_dataset(500)


class Eager(Turns):
    """Gives the reader turns when rows are noted, too."""

    def __init__(self, turn, *args):
        super().__init__(turn, *args)
        self._turns = itertools.cycle([0, 3, 1, 0, 0, 2])

    def note(self, row_id, score, is_visit=True):
        super().note(row_id, score, is_visit)
        for _ in range(next(self._turns)):
            self._turn()


def left(session, extra=()):
    """Bytes of all that a run leaves, and what it reported. `extra`: turns the reader gets between passes, in turn."""
    reported = []
    for turns in itertools.islice(itertools.chain(extra, itertools.repeat(0)), PASSES):
        reported.append(_without_seconds(next(session.passes)))
        for _ in range(turns):
            session.reader.step()
    return session.alpha.tobytes(), session.w.tobytes(), reported


def _without_seconds(progress):
    """Of its sweeps, too: seconds are those of a clock."""
    return replace(progress, sweeps=tuple(replace(sweep, elapsed_seconds=0.0) for sweep in progress.sweeps))


def run(directory, dataset, turns=1, extra=(), **settings):
    with solving(directory, dataset, turns=turns, **settings) as session:
        return left(session, extra)


@pytest.mark.parametrize("mode", REPRODUCIBLE, ids=name_of)
def test_pace_of_the_reader_changes_nothing(tmp_path, dataset, mode):
    """Nor if it takes turns in the middle of a step, wherever the trainer notes what it has visited."""
    loss = ("hinge", "squared_hinge")[REPRODUCIBLE.index(mode) % 2]
    common = {**mode, "loss": loss, "updates_per_row": 3}
    first = run(tmp_path / "a", dataset, **common)
    assert run(tmp_path / "b", dataset, turns=5, **common) == first
    assert run(tmp_path / "c", dataset, extra=(1, 7, 0, 2, 30), **common) == first
    assert run(tmp_path / "d", dataset, link=Eager, **common) == first


@pytest.mark.parametrize("mode", REPRODUCIBLE, ids=name_of)
def test_seeds_differ(tmp_path, dataset, mode):
    results = {run(tmp_path / str(seed), dataset, seed=seed, **mode)[1] for seed in range(2)}
    assert len(results) == 2
