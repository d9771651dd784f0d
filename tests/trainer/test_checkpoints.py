"""When a checkpoint is made, and of what: nothing out of its box is kept."""

from dataclasses import replace

import numpy as np
import pytest

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.checkpoints import Checkpoints, CheckpointSlots, OutOfBox

LAST_STEP = Step(
    number=1, n_rows=0, width=0, pass_=1, section=0, pieces=1, rows=0, screened=0, screened_unvisited=0,
    ends_section=True, ends_pass=True, pass_losses=(0.0,), fresh=(), resident=(),
)  # fmt: skip


def test_an_attempt_of_the_past_writes_no_checkpoint(tmp_path):
    """Its worker has taken the run directory away, and another attempt may be under way."""
    run = tmp_path / "run"
    run.mkdir()
    slots = CheckpointSlots(run, str(tmp_path), seconds=60, number=0)
    slots.write({}, {}, is_sure=True)
    assert newest_checkpoint(tmp_path).about["number"] == 1
    run.rmdir()
    slots.write({}, {}, is_sure=True)
    assert newest_checkpoint(tmp_path).about["number"] == 1


def test_a_checkpoint_is_due_when_time_has_passed_or_costs_little_at_the_end_of_a_pass(tmp_path):
    now = [0.0]
    slots = CheckpointSlots(tmp_path, str(tmp_path), 60.0, 0, clock=lambda: now[0])
    assert [slots.is_due(ends_pass) for ends_pass in (False, True)] == [False, True]
    now[0] = 59.9
    assert not slots.is_due(ends_pass=False)
    now[0] = 60.0
    assert slots.is_due(ends_pass=False)
    assert not CheckpointSlots(tmp_path, None, 0.0, 0, clock=lambda: now[0]).is_due(ends_pass=True)


def test_a_checkpoint_that_takes_long_is_made_less_often(tmp_path):
    """A twentieth of the time, at most, but for those that are due by the clock."""
    ticks = iter([0.0, 100.0, 101.0, 119.0, 121.5])  # made; begun, ended; asked twice
    slots = CheckpointSlots(tmp_path, str(tmp_path), 60.0, 0, clock=lambda: next(ticks))
    slots.write({}, {}, is_sure=True)
    assert [slots.is_due(ends_pass=True) for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("largest", "is_signed", "alpha", "is_sound"),
    [
        (2.0, False, [0.0, 1.0, 2.0], True),
        (2.0, False, [0.0, 2.0000001], False),
        (2.0, False, [-1e-12, 1.0], False),
        (np.inf, False, [0.0, 1e300], True),
        (np.inf, False, [-1e-300], False),
        (2.0, True, [-2.0, 2.0], True),
        (2.0, True, [-2.1], False),
        (2.0, False, [1.0, np.nan], False),
        (2.0, False, [], True),
    ],
)
def test_alpha_out_of_its_box_is_not_kept(tmp_path, largest, is_signed, alpha, is_sound):
    """What follows from it would not hold."""
    state = create_state(tmp_path, len(alpha) + 1, 2)
    state.alpha[: len(alpha), 0] = alpha
    checkpoints = Checkpoints(CheckpointSlots(tmp_path, str(tmp_path), 1e9, 0), state, largest, is_signed)
    checkpoints.keep(dict)
    step = replace(LAST_STEP, n_rows=len(alpha), width=2)
    if is_sound:
        checkpoints.make(step, np.zeros((2, 1)), dict)
    else:
        with pytest.raises(ValuesOverflow if np.isnan(alpha).any() else OutOfBox):
            checkpoints.make(step, np.zeros((2, 1)), dict)
    assert (newest_checkpoint(tmp_path) is not None) == is_sound
