"""Arriving rows at rest: found as a visit would find them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from storage.segment import Segment
from tests.contracts.kernels import BOUNDS
from tests.trainer.test_kernels import setting
from trainer.arriving import find_resting
from trainer.kernels.dual import visit_rows


@pytest.mark.parametrize("loss", BOUNDS)
@pytest.mark.parametrize("seed", range(5))
def test_rows_at_rest_are_those_a_visit_leaves_alone(loss, seed):
    columns, _, bounds, U, *_, alpha, w = setting(loss, seed)
    with ThreadPoolExecutor(2) as pool:
        first, second = find_resting([Segment(*columns)] * 2, bounds, alpha, w, pool)
    resting, score = first
    assert np.array_equal(resting, second[0])
    kinds = set()
    for k, i in enumerate(columns[0]):
        a, expected = alpha.copy(), np.zeros(len(resting), np.float32)
        M_plus, M_minus, *_ = visit_rows(
            np.array([k], np.int32), *columns, *bounds, a, a, w.copy(), expected, np.empty(1)
        )  # fmt: skip
        at_bound = alpha[i] in (0.0, U[k])
        assert resting[k] == (at_bound and M_plus == M_minus == 0.0)
        kinds.add((bool(resting[k]), at_bound))
        if resting[k]:
            assert a.tobytes() == alpha.tobytes()
            assert score[k] == expected[k] >= 0.0
    assert kinds == {(True, True), (False, True), (False, False)}
