"""A session in real containers, and what an operator fears: a container killed, a job too large for its memory."""

import os
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.containers.conftest import ROOT
from tests.containers.engine import reason_unusable
from tests.containers.project import Project
from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.test_readme import commands

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif(reason_unusable() is not None, reason=f"no containers: {reason_unusable()}"),
]
NAME = "svm.example"
# By the arithmetic of deploy/README.md they have room for a job of 8 million features.
SIZES = {"STREAMSVM_SHM_SIZE": "128m", "STREAMSVM_WORKER_MEMORY": "640m"}
# Of a row. A job trains on their 15 million products: each has its own number, and is in every row.
FEATURES = 5500


@pytest.fixture(scope="module")
def project(new_project, image, text) -> Project:
    made = new_project(ROOT, STREAMSVM_NAMES=NAME, **SIZES)
    assert {made.inspect(service, "{{.Image}}") for service in ("api", "worker")} == {image}
    made.request("PUT", "/v1/datasets/data", content=text)
    return made


@pytest.fixture
def folder(tmp_path: Path, text: bytes, project: Project) -> Path:
    """Where a user stands whose curl knows the token."""
    (tmp_path / "train.svm.zst").write_bytes(zstandard.compress(text))
    (tmp_path / ".curlrc").write_text(f'header = "Authorization: Bearer {project.token}"\n')
    return tmp_path


def test_the_session_of_the_readme(project, folder):
    session = commands("api", "A session").replace("http://localhost:8000", project.url)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", session],
        cwd=folder,
        env={**os.environ, "CURL_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"unknown_features":' in done.stdout and "problem" not in done.stdout
    assert (folder / "rcv1.model").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\n")
    assert (folder / "rcv1.npz").stat().st_size > 0


def test_both_are_healthy_and_answer_to_the_name_in_the_settings(project):
    assert project.is_healthy("api") and project.is_healthy("worker")
    assert project.request("GET", "/v1/info", headers={"Host": NAME})["features"] == {
        "tokens": True,
        "onnx": True,
    }


def test_a_job_goes_on_and_ends_with_its_certificate_while_both_are_killed(project):
    job = project.submit(**ENDLESS, checkpoint_seconds=0.1)
    begun = project.wait_for_pass(job, 3)
    project.kill("worker")
    after = project.wait_for_pass(job, begun["progress"]["pass"] + 1, attempt=2)
    (back,) = [step for step in after["transitions"][1:] if step["state"] == "queued"]
    assert back["reason"] == "worker_died"
    project.kill("api")
    later = project.wait_for_pass(job, after["progress"]["pass"] + 1, attempt=2)
    assert later["attempt"] == 2 and later["started_at"] == after["started_at"]
    project.request("POST", f"/v1/jobs/{job}/stop")
    ended = project.wait_until_ended(job)
    assert ended["state"] == "stopped" and ended["model_id"]
    certificate = ended["result"]["certificate"]
    assert certificate["primal_objective"] >= certificate["dual_objective"] > 0
    passes = project.request("GET", f"/v1/jobs/{job}/history")["passes"]
    assert [each["pass"] for each in passes] == list(range(1, len(passes) + 1))


def test_a_job_that_does_not_fit_fails_and_the_service_goes_on(project, engine):
    if "memory" not in engine.podman("info", "--format", "{{.Host.CgroupControllers}}"):
        pytest.skip("no memory control group here")
    assert project.inspect("worker", "{{.HostConfig.Memory}}") == str(640 << 20)
    started = {service: project.inspect(service, "{{.State.StartedAt}}") for service in ("api", "worker")}
    rows = [b" ".join([b"%d" % y, *(b"%d:%d" % (k, 2 + y) for k in range(1, FEATURES + 1))]) for y in (-1, 1)]
    project.request("PUT", "/v1/datasets/wide", content=b"\n".join(4 * rows) + b"\n")
    # The kernel takes file pages back first, and kills the largest process when there are none; that, five times.
    job = project.submit(dataset="wide", features=[{"pairs": {"bits": 24}}], cache_bytes=4 << 20)
    ended = project.wait_until_ended(job, 15 * 60)
    assert ended["state"] == "failed" and ended["failure"]["code"] == "crash_loop", ended
    assert {step["reason"] for step in ended["transitions"][1:] if step["state"] == "queued"} == {"process_died"}
    assert "signal 9" in ended["failure"]["message"]
    small = project.wait_until_ended(project.submit(dataset="data", max_passes=3, cache_bytes=1 << 17))
    assert small["state"] == "succeeded"
    assert {service: project.inspect(service, "{{.State.StartedAt}}") for service in started} == started
