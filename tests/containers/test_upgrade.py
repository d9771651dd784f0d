"""From the commit before to this one, on the same volumes."""

import pytest

from tests.containers.conftest import ROOT
from tests.containers.engine import IMAGE, reason_unusable
from tests.end_to_end.conftest import ENDLESS

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif(reason_unusable() is not None, reason=f"no containers: {reason_unusable()}"),
]


def test_jobs_and_models_of_the_version_before_are_there_after_an_upgrade(engine, image, before, new_project, text):
    old = engine.build(before)
    project = new_project(before)
    assert project.inspect("worker", "{{.Image}}") == old
    project.request("PUT", "/v1/datasets/data", content=text)
    model = project.wait_until_ended(project.submit(**{**ENDLESS, "max_passes": 3}))["model_id"]
    predict = {"json": {"rows": [{"1": 1.0, "7": -2.0}]}}
    predictions = project.request("POST", f"/v1/models/{model}/predict", **predict)["predictions"]
    running = project.submit(**ENDLESS, checkpoint_seconds=0.1)
    queued = project.submit(**{**ENDLESS, "max_passes": 3})
    reached = project.wait_for_pass(running, 3)["progress"]["pass"]
    assert project.job(queued)["state"] in ("queued", "running", "succeeded")  # versions run one job at a time, or two

    project.down()
    engine.podman("tag", image, IMAGE)
    project.place(ROOT / "deploy")
    project.compose("up", "-d", "api", "worker")

    assert project.inspect("worker", "{{.Image}}") == image
    # Handed back with a checkpoint when its worker was stopped: that is no crash, and costs no pass.
    assert project.wait_for_pass(running, reached + 1)["attempt"] == 1
    assert project.request("POST", f"/v1/models/{model}/predict", **predict)["predictions"] == predictions
    project.request("POST", f"/v1/jobs/{running}/stop")
    assert project.wait_until_ended(running)["state"] == "stopped"
    ended = project.wait_until_ended(queued)
    assert ended["state"] == "succeeded" and ended["result"]["certificate"]["primal_objective"] > 0
