"""Processes that are killed and stopped at random: nothing acknowledged is lost, and fixed jobs end in the same bytes.

The jobs make a checkpoint every tenth of a second, so that they get on between two faults. Many faults are shared out
over a few services that go through them side by side: most of the time of one is waiting.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import ENDED
from tests.faults.kit import Ordeal
from tests.faults.scale import count

FAULTS = count(3, 1000)
SERVICES = 3 if FAULTS >= 30 else 1
FAULTS_A_JOB = 20
COPIES = 3  # of the text: two blocks, so that there are checkpoints within a pass
FIXED = {**ENDLESS, "max_passes": 15, "checkpoint_seconds": 0.1}
# To a gap that is far below what two runs may differ by.
ADAPTIVE = {
    **FIXED, "pace": "adaptive", "max_passes": 10_000, "relative_gap": 2e-7, "solver_options": {"updates_per_row": 8},
}  # fmt: skip


def objective(job):
    return job["result"]["certificate"]["primal_objective"]


def disturbed_jobs(ordeal, faults):
    """{job: its spec} of jobs that were struck so often together; they have ended."""
    specs = {}
    while ordeal.faults < faults:
        spec = ADAPTIVE if len(specs) % 4 == 3 else FIXED
        job = ordeal.submit(**spec)
        specs[job] = spec
        for _ in range(min(FAULTS_A_JOB, faults - ordeal.faults)):
            ordeal.pause()
            ordeal.strike()
            ordeal.look()
            if ordeal.jobs[job]["state"] in ENDED:
                break
        ordeal.wait(job)
    ordeal.finish()
    return specs


def survives(ordeal, text, faults):
    """What is acknowledged; the model of the fixed jobs, and how many jobs there were."""
    ordeal.service.start()
    ordeal.upload("data", COPIES * text)
    fixed, adaptive = ordeal.submit(**FIXED), ordeal.submit(**ADAPTIVE)
    ordeal.finish()
    w, least = ordeal.model(fixed).w.tobytes(), objective(ordeal.jobs[adaptive])
    disturbed = disturbed_jobs(ordeal, faults)
    for job, spec in disturbed.items():
        assert ordeal.jobs[job]["state"] == "succeeded", ordeal.jobs[job]["failure"]
        if spec is FIXED:
            assert ordeal.model(job).w.tobytes() == w
        else:
            np.testing.assert_allclose(objective(ordeal.jobs[job]), least, rtol=1e-6)
    return w, len(disturbed)


def test_what_is_acknowledged_survives(new_service, rng, text):
    # Faults are meant to come more often than any that crash_loop is made for. To start takes seconds on a busy
    # machine, in which nothing is heard.
    services = [new_service(stall_seconds=6, max_crashes=1000) for _ in range(SERVICES)]
    ordeals = [Ordeal(service, its) for service, its in zip(services, rng.spawn(SERVICES), strict=True)]
    shares = [len(share) for share in np.array_split(range(FAULTS), SERVICES)]
    began = time.monotonic()
    with ThreadPoolExecutor(SERVICES) as pool:
        try:
            ends = list(pool.map(survives, ordeals, [text] * SERVICES, shares))
        except BaseException:
            # Or the others would go on to their end first.
            for service in services:
                service.kill()
            raise
    assert len({w for w, _ in ends}) == 1
    print(f"{FAULTS} faults, {sum(jobs for _, jobs in ends)} jobs, {time.monotonic() - began:.0f} s")
