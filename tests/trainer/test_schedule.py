"""Which sweep comes next, and by how many threads: tables of cases."""

from itertools import pairwise

import pytest

from streamsvm.trainer.sweeps.sweep import WHOLE_EVERY, Next, is_told, is_worth_threads, next_sweep

WHOLE, SHORT, STOP = Next


@pytest.mark.parametrize(
    ("sweeps", "has_to_end", "expected"),
    [(0, False, WHOLE), (0, True, STOP), (1, False, SHORT), (1, True, STOP), (WHOLE_EVERY, True, STOP)],
)
def test_next_sweep(sweeps, has_to_end, expected):
    assert next_sweep(sweeps, has_to_end) == expected


def test_each_fifth_is_whole():
    kinds = [next_sweep(sweeps, False) for sweeps in range(40)]
    assert [k for k, kind in enumerate(kinds) if kind is WHOLE] == list(range(0, 40, WHOLE_EVERY))
    assert STOP not in kinds


def test_a_history_has_the_first_sweeps_and_ever_fewer_of_the_rest():
    told = [sweep for sweep in range(1, 10_001) if is_told(sweep)]
    assert told[:31] == list(range(1, 32))
    assert len([sweep for sweep in told if sweep <= 200]) < 75 and len(told) < 200
    # A curve over them has no hole: the next one comes within a sixteenth.
    assert all(after - before <= max(1, before / 16) for before, after in pairwise(told))


@pytest.mark.parametrize(
    ("n_bytes", "n_rows", "expected"),
    [
        (456 << 20, 200_000, True),  # text
        (63 << 20, 25_000, False),  # little of it
        (456 << 20, 4_000_000, False),  # rows as short as the lock they would wait for
    ],
)
def test_threads_share_sweeps_over_many_long_rows(n_bytes, n_rows, expected):
    assert is_worth_threads(n_bytes, n_rows) == expected
