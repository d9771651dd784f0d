"""Which sweep comes next: a table of cases."""

import pytest

from trainer.schedule import WHOLE_EVERY, Next, Place, has_slowed_down, next_sweep

WHOLE, SHORT, STOP = Next
FALLING = [0.5**k for k in range(40)]
FLAT = [1.0] * 31


@pytest.mark.parametrize(
    ("gaps", "is_exact", "is_due", "has_to_end", "expected"),
    [
        ([], True, False, False, WHOLE),
        ([], False, False, False, WHOLE),
        ([9.0], True, False, False, SHORT),
        ([9.0], False, False, False, SHORT),
        # A checkpoint is of a w that is exact: if it is, nothing has to be done for it.
        ([9.0], True, True, False, SHORT),
        ([9.0], False, True, False, WHOLE),
        # The end is, too.
        ([9.0], True, False, True, STOP),
        ([9.0], False, False, True, WHOLE),
        ([], True, False, True, STOP),
        ([], False, False, True, WHOLE),
        (FLAT, True, False, False, STOP),
        (FLAT, False, False, False, WHOLE),
        (FALLING[:31], True, False, False, SHORT),
    ],
)
def test_next_sweep(gaps, is_exact, is_due, has_to_end, expected):
    assert next_sweep(Place(gaps, is_exact, is_due, has_to_end)) == expected


def test_each_fifth_is_whole():
    kinds = [next_sweep(Place(FALLING[:k], True, False, False)) for k in range(40)]
    assert [k for k, kind in enumerate(kinds) if kind is WHOLE] == list(range(0, 40, WHOLE_EVERY))
    assert STOP not in kinds


@pytest.mark.parametrize(
    ("gaps", "slow"),
    [
        ([], False),
        ([1.0] * 30, False),
        ([1.0] * 31, True),
        ([9.0, 1.0, *[0.8] * 29, 0.49], False),
        ([9.0, 1.0, *[0.8] * 29, 0.51], True),
        ([0.0] * 31, True),
    ],
)
def test_sweeps_end_when_they_bring_little(gaps, slow):
    assert has_slowed_down(gaps) == slow
