"""Jobs on nodes of a Ray cluster whose network is cut, or which are paused with all that runs on them."""

import time

import numpy as np
import pytest

from tests.end_to_end.machines import again, begun, goes_on, nothing_left, processes, storeless
from tests.end_to_end.service import STREAMSVM
from tests.ray_networks import NetworkNodes, reason_unusable

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
pytestmark = pytest.mark.slow
__all__ = ["nothing_left", "storeless"]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    if reason := reason_unusable():
        pytest.skip(reason)
    cluster = NetworkNodes(tmp_path_factory.mktemp("nodes"), 3)
    yield cluster
    cluster.close()


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


@pytest.fixture
def place(service, nodes):
    """Of a node on which the job trains."""

    def find():
        trainers = {each.pid for each in processes("streamsvm.trainer.distributed.shard")}
        return next(number for number in (1, 2, 3) if trainers & nodes.pids(number))

    return find


@again
def test_the_network_of_a_node_is_cut_for_moments(service, nodes, place, _number):
    job_id = begun(service)
    before = trained_on(service, job_id)
    _cut(nodes, place(), 3)
    assert trained_on(service, job_id) == before
    goes_on(service, job_id)


@again
def test_the_network_of_a_node_is_cut_until_another_one_takes_over(service, nodes, place, _number):
    job_id = begun(service)
    before = trained_on(service, job_id)
    number = place()
    try:
        _cut(nodes, number, 45)
        assert trained_on(service, job_id) != before
    finally:
        nodes.begin_anew(number)
    goes_on(service, job_id)


@again
def test_a_node_is_paused_and_let_go(service, nodes, place, _number):
    job_id = begun(service)
    before = trained_on(service, job_id)
    with nodes.paused(place()):
        time.sleep(20)  # longer, and it counts as dead
    assert trained_on(service, job_id) == before
    goes_on(service, job_id)


def _cut(nodes, number, seconds):
    nodes.cut(number)
    try:
        time.sleep(seconds)
    finally:
        nodes.mend(number)
