"""The Ray clusters of deploy/ray, and a job on each."""

import re
import shutil
import subprocess

import pytest

from tests.containers.conftest import ROOT
from tests.containers.engine import reason_unusable
from tests.containers.kuberay import TOKEN, Pods
from tests.end_to_end.machines import OPTIMUM
from tests.end_to_end.service import wait_for

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif(reason_unusable() is not None, reason=f"no containers: {reason_unusable()}"),
]
NAME, PROJECT = "streamsvm-ray:0.3.0", "streamsvm-ray"
SECONDS = 300  # until a cluster is there
COPIES = 100  # of the problem, so that each node has blocks
KERNELS = "cd {}/kernels && find . -name '*.nbc'"
COUNT = "import ray; ray.init('auto', logging_level='error'); print(sum(n['Alive'] for n in ray.nodes()))"


@pytest.fixture(scope="module")
def execute(engine):
    """Runs a command in a container of a cluster; the image is there."""
    engine.build(ROOT, NAME, EXTRAS="ray")

    def execute(container, *command, **options):
        inside = ["podman", "exec", "-i", f"{PROJECT}_{container}", *command]
        return subprocess.run(inside, env=engine.environment, capture_output=True, check=False, **options)

    return execute


@pytest.fixture(params=["compose", "kuberay"])
def head(request, engine, execute, tmp_path):
    """The name of the head's container in a cluster with two nodes."""
    if request.param == "kuberay":
        pods = Pods(engine, ROOT / "deploy/ray/kuberay.yaml")
        try:
            pods.start(2)
            yield "head"
        finally:
            pods.close()
        return
    folder = shutil.copytree(ROOT / "deploy/ray", tmp_path / "ray")
    (folder / ".env").write_text(f"RAY_AUTH_TOKEN={TOKEN}\nSTREAMSVM_NODES=2\nSTREAMSVM_NODE_SHM=1g\n")
    compose = "podman-compose", "-p", PROJECT
    engine.run(*compose, "up", "-d", cwd=folder)
    try:
        yield "head_1"
    finally:
        engine.run(*compose, "down", "-t", "0", cwd=folder)
        engine.podman("volume", "rm", "--all", "--force")


def test_a_job_on_two_nodes_has_its_certificate(execute, head, text):
    wait_for(lambda: execute(head, "python", "-c", COUNT).stdout.strip() == b"3", SECONDS)  # the head is one
    wanted = "-C", str(1.0 / COPIES), "-e", "none", "--relative-gap", "1e-4", "-o", "/tmp/m.model"
    train = ["streamsvm", "train", "-", "--machines", "2", "--ray", "auto", *wanted]
    done = execute(head, *train, input=text * COPIES)
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(rb"objective (\S+), relative duality gap (\S+)", done.stderr)
    objective, gap = map(float, found)
    assert gap <= 1e-4 and objective == pytest.approx(OPTIMUM, rel=2e-4)
    assert all(b"of2-" in execute(f"node_{k}", "ls", "/node/datasets").stdout for k in (1, 2))
    # The image's kernels were copied, and none had to be compiled there.
    image, own = (
        set(execute("node_1", "sh", "-c", KERNELS.format(place)).stdout.split()) for place in ("/opt", "/tmp")
    )
    assert image and image == own
