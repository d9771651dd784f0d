"""Jobs on nodes of a Ray cluster whose network is cut."""

import os
import time

import numpy as np
import pytest

from tests.end_to_end.machines import begun, goes_on, processes, upload_in_blocks
from tests.end_to_end.service import STREAMSVM, Service, wait_for
from tests.ray_networks import NetworkNodes, reason_unusable

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
pytestmark = pytest.mark.slow
again = pytest.mark.parametrize("_number", range(int(os.environ.get("CLUSTER_FAULTS", "1"))))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    if reason := reason_unusable():
        pytest.skip(reason)
    cluster = NetworkNodes(tmp_path_factory.mktemp("nodes"), 3)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory, nodes, text):
    service = Service(tmp_path_factory.mktemp("service"), ray_address=nodes.address)
    try:
        upload_in_blocks(service.start(), text)
        yield service
    finally:
        service.kill()


@pytest.fixture(autouse=True)
def nothing_left(service):
    yield
    wait_for(lambda: not processes("trainer.part"), 120)


def trained_on(service, job_id):
    """The nodes."""
    return {each["node"] for each in service.get(f"/v1/jobs/{job_id}/history")["passes"][-1]["machines"]}


def test_a_machine_that_is_no_node_trains_there(nodes, text, tmp_path):
    (tmp_path / "train.svm").write_bytes(text * 20)  # of several blocks
    done = nodes.from_outside(
        STREAMSVM, "train", tmp_path / "train.svm", "--machines", 2, "--ray", nodes.address, "--relative-gap", 1e-3,
        "-e", "none", "--max-passes", 1000, "-o", tmp_path / "m.npz",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "m.npz")["w"].any()


@again
@pytest.mark.parametrize("seconds", [3, 100])
def test_the_network_of_a_node_is_cut(service, nodes, seconds, _number):
    """For moments, or until its node counts as dead and another one has taken over."""
    job_id = begun(service)
    before = trained_on(service, job_id)
    number = next(k for k in (1, 2, 3) if {each.pid for each in processes("trainer.part")} & nodes.pids(k))
    nodes.cut(number)
    try:
        time.sleep(seconds)
    finally:
        nodes.mend(number)
    assert (trained_on(service, job_id) == before) == (seconds < 30)
    goes_on(service, job_id)
