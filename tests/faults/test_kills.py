"""Processes that are killed and stopped at random: nothing acknowledged is lost, and fixed jobs end in the same bytes.

The jobs make a checkpoint every tenth of a second, so that they get on between two faults.
"""

import numpy as np
import pytest

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import ENDED
from tests.faults.kit import Ordeal
from tests.faults.scale import count

FAULTS = count(3, 1000)
FAULTS_A_JOB = 20
FIXED = {**ENDLESS, "max_passes": 25, "checkpoint_seconds": 0.1}
# To a gap that is far below what two runs may differ by.
ADAPTIVE = {**FIXED, "pace": "adaptive", "max_passes": 10_000, "relative_gap": 2e-7, "updates_per_row": 8}


@pytest.fixture
def ordeal(new_service, rng):
    # Faults are meant to come more often than any that crash_loop is made for.
    return Ordeal(new_service(stall_seconds=3, max_crashes=1000).start(), rng)


def objective(job):
    return job["result"]["certificate"]["primal_objective"]


def test_what_is_acknowledged_survives(ordeal, text):
    ordeal.upload("data", text)
    fixed, adaptive = ordeal.submit(**FIXED), ordeal.submit(**ADAPTIVE)
    ordeal.finish()
    w, least = ordeal.model(fixed).w.tobytes(), objective(ordeal.jobs[adaptive])
    disturbed = {}
    while ordeal.faults < FAULTS:
        spec = ADAPTIVE if len(disturbed) % 4 == 3 else FIXED
        job = ordeal.submit(**spec)
        disturbed[job] = spec
        for _ in range(min(FAULTS_A_JOB, FAULTS - ordeal.faults)):
            ordeal.pause()
            ordeal.strike()
            ordeal.look()
            if ordeal.jobs[job]["state"] in ENDED:
                break
    ordeal.finish()
    for job, spec in disturbed.items():
        assert ordeal.jobs[job]["state"] == "succeeded", ordeal.jobs[job]["failure"]
        if spec is FIXED:
            assert ordeal.model(job).w.tobytes() == w
        else:
            np.testing.assert_allclose(objective(ordeal.jobs[job]), least, rtol=1e-6)
    print(f"{ordeal.faults} faults, {len(disturbed)} jobs")
