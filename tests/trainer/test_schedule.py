"""Which sweep comes next, and by how many threads: tables of cases."""

import pytest

from trainer.schedule import WHOLE_EVERY, Next, is_worth_threads, next_sweep

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
