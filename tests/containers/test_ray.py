"""The Ray cluster of deploy/ray/compose.yaml, and a job on it."""

import re
import shutil
import subprocess

import pytest

from tests.containers.conftest import ROOT
from tests.containers.engine import reason_unusable
from tests.end_to_end.machines import OPTIMUM
from tests.end_to_end.service import wait_for

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif(reason_unusable() is not None, reason=f"no containers: {reason_unusable()}"),
]
NAME, PROJECT = "streamsvm-ray:0.2.0", "streamsvm-ray"
SECONDS = 300  # until a cluster is there
COPIES = 100  # of the problem, so that each node has blocks
COUNT = "import ray; ray.init('auto', logging_level='error'); print(sum(n['Alive'] for n in ray.nodes()))"


@pytest.fixture
def cluster(engine, tmp_path):
    """Runs a command in a container of a cluster with two nodes."""
    engine.build(ROOT, NAME, EXTRAS="ray")
    folder = shutil.copytree(ROOT / "deploy/ray", tmp_path / "ray")
    (folder / ".env").write_text("RAY_AUTH_TOKEN=" + "5" * 64 + "\nSTREAMSVM_NODES=2\nSTREAMSVM_NODE_SHM=1g\n")
    compose = "podman-compose", "-p", PROJECT
    engine.run(*compose, "up", "-d", cwd=folder)

    def execute(container, *command, **options):
        inside = ["podman", "exec", "-i", f"{PROJECT}_{container}", *command]
        return subprocess.run(inside, env=engine.environment, capture_output=True, check=False, **options)

    try:
        yield execute
    finally:
        engine.run(*compose, "down", "-t", "0", cwd=folder)
        engine.podman("volume", "rm", "--all", "--force")


def test_a_job_on_two_nodes_has_its_certificate(cluster, text):
    wait_for(lambda: cluster("head_1", "python", "-c", COUNT).stdout.strip() == b"3", SECONDS)  # the head is one
    wanted = "-C", str(1.0 / COPIES), "-e", "none", "--relative-gap", "1e-4", "-o", "/tmp/m.model"
    train = ["streamsvm", "train", "-", "--machines", "2", "--ray", "auto", *wanted]
    done = cluster("head_1", *train, input=text * COPIES)
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(rb"objective (\S+), relative duality gap (\S+)", done.stderr)
    objective, gap = map(float, found)
    assert gap <= 1e-4 and objective == pytest.approx(OPTIMUM, rel=2e-4)
    assert all(b"of2-" in cluster(f"node_{k}", "ls", "/node/datasets").stdout for k in (1, 2))
