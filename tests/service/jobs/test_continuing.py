"""When crashes are too many."""

import pytest

from streamsvm.service.processes.work import is_stuck


def record(*passes: int) -> dict:
    return {"transitions": [{"state": "queued", "pass": pass_} for pass_ in passes]}


@pytest.mark.parametrize(
    ("crashes", "passes", "stuck"),
    [(4, (), False), (5, (), True), (1, (3,) * 48, False), (1, (3,) * 49, True), (1, (1, 2) * 200, False)],
)
def test_a_job_is_stuck_without_a_newer_checkpoint_or_in_one_pass(crashes, passes, stuck):
    assert is_stuck(crashes, 3, record(*passes), 5) is stuck
