"""Jobs on nodes of a Ray cluster, one of which has a disk that is full."""

import contextlib
import shutil
import time

import pytest

from tests.disks import mounted_disk
from tests.end_to_end.machines import again, begun, goes_on, nothing_left, storeless
from tests.ray_nodes import Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
pytestmark = pytest.mark.slow
__all__ = ["nothing_left", "storeless"]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("nodes")
    with mounted_disk(directory / "node1", 16 << 20):
        cluster = Nodes(directory, 2)
        yield cluster
        cluster.close()


@again
@pytest.mark.parametrize("is_full_before", [False, True])
def test_the_disk_of_a_node_is_full(service, nodes, is_full_before, _number):
    """Nothing can be kept there any more; or not even the shard, which another node has to take then, too."""
    disk = nodes.directories[0]
    for kept in disk.glob("datasets/*"):
        shutil.rmtree(kept)
    job_id = None if is_full_before else begun(service)
    _fill(disk)
    job_id = job_id or begun(service)
    time.sleep(3)  # something is kept each second
    goes_on(service, job_id)


def _fill(directory):
    with (directory / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
