"""The acceptance bench's judgement of weak duality, on histories that break it and on one without bounds."""

import pytest

from tests.bench.acceptance import weak_duality_held
from tests.bench.jobs import Finished

OPTIMUM = 10.0


def finished(*passes: tuple[float, float | None], dual: float = 9.5, primal: float = 10.5) -> Finished:
    """With these dual objectives and primal bounds, and this certificate."""
    lines = [{"dual_objective": D, "primal_bound": P} for D, P in passes]
    certificate = {"dual_objective": dual, "primal_objective": primal}
    return Finished(lines, [{"certificate": certificate}], 0.1, {}, 0)


@pytest.mark.parametrize("passes", [((8.0, 12.0), (9.0, 11.0)), ((9.0, None),), ((8.0, None), (9.0, 11.0))])
def test_it_held_where_every_bound_that_is_known_lies_above(passes):
    assert weak_duality_held(finished(*passes), OPTIMUM)


@pytest.mark.parametrize(
    "done",
    [
        finished((9.0, 8.5)),
        finished((10.1, None)),
        finished((10.1, 12.0)),
        finished((9.0, None), dual=10.6),
        finished((9.0, None), dual=9.5, primal=9.4),
    ],
    ids=["above the bound", "above the optimum", "with a bound", "certificate", "certificate's bound"],
)
def test_it_is_violated_by_one_dual_objective(done):
    assert not weak_duality_held(done, OPTIMUM)
