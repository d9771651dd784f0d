"""Datasets of a store that the nodes of a real Ray cluster read in: faults, and what is rare; more in test_machines."""

import os
import shutil
import sqlite3

import numpy as np
import pytest

from tests.end_to_end.machines import URL, forget, nodes, parts, put, service, spread, store
from tests.end_to_end.service import wait_for
from tests.ray_nodes import Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
pytestmark = pytest.mark.slow
__all__ = ["nodes", "service", "spread", "store"]
ACCURATE = {"relative_gap": 1e-5, "tolerance": None, "max_passes": 2000}


def test_datasets_are_forgotten_each_on_its_own(service, nodes, spread):
    put(service, "other", machines=1)
    assert len(parts(nodes)) == 3
    forget(service, "other")
    wait_for(lambda: len(parts(nodes)) == 2)


def test_maps_that_need_statistics(service, spread):
    assert spread["machines"] == 2
    job = service.wait_until_ended(service.submit(dataset="spread", machines=2, features=["scale"], **ACCURATE))
    assert job["result"]["certificate"]["w_error"] < 1e-6


def test_a_part_that_is_away_is_forgotten_when_it_is_back(service, nodes, tmp_path):
    put(service, "spread", machines=2)
    away = parts(nodes)[0]
    shutil.move(away, tmp_path / "away")
    forget(service, "spread")
    wait_for(lambda: not parts(nodes))
    service.kill()
    shutil.move(tmp_path / "away", away)
    service.start()
    wait_for(lambda: not parts(nodes))
    wait_for(lambda: len(list((service.data_dir / "datasets").iterdir())) == 1)  # `data`


def test_a_kill_between_publishing_and_recording_leaves_no_part(service, nodes, spread):
    before = parts(nodes)
    service.kill()
    with sqlite3.connect(service.data_dir / "streamsvm.sqlite") as database:
        database.execute("UPDATE datasets SET state = 'ingesting' WHERE name = 'spread'")
    database.close()
    service.start()
    wait_for(lambda: service.get("/v1/datasets/spread")["state"] == "ready")
    wait_for(lambda: len(parts(nodes)) == 2 and not set(parts(nodes)) & set(before))


def test_more_machines_than_files_or_nodes(service, store, text):
    store.put("bucket/few", b"".join(text.splitlines(keepends=True)[:100]))
    assert "nothing is left for machine 1" in put(service, "one", "s3://bucket/few", machines=2)["failure"]["detail"]
    assert "no file matches" in put(service, "none", "s3://bucket/none*", machines=2)["failure"]["detail"]
    assert "2 nodes" in put(service, "many", machines=3)["failure"]["detail"]


def test_a_command_trains_on_machines_that_read_a_url(service, nodes, tmp_path):
    done = service.processes.run("train", URL, "--machines", "2", "--ray", nodes.address, "--relative-gap", "1e-5",
                                 "-e", "none", "--max-passes", "2000", "-o", tmp_path / "m.npz", text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "m.npz")["w"].any()
    assert not parts(nodes)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the rights to mount a disk")
def test_a_dataset_that_no_node_can_hold(store, small_disk, new_service, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20_000, 100))
    rows = (b" ".join(b"%d:%.7f" % pair for pair in enumerate(row, 1)) for row in values.tolist())
    store.put("bucket/large", b"\n".join(b"%d %b" % (2 * (k % 2) - 1, row) for k, row in enumerate(rows)))
    disks = tmp_path / "disks"
    for number in (1, 2):
        small_disk(disks / f"node{number}", 6 << 20)
    nodes = Nodes(disks, 2, store.environment())
    try:
        service = new_service(ray_address=nodes.address, import_sources="s3://bucket/")
        service.processes.environment |= store.environment()
        service.start()
        failure = put(service, "one", "s3://bucket/large", machines=1)["failure"]
        assert failure["code"] == "out_of_space"
        assert "machine 0" in failure["detail"]
        assert not parts(nodes)
        seen = put(service, "two", "s3://bucket/large", machines=2)
        assert seen["state"] == "ready", seen["failure"]
        assert seen["stored_bytes"] > 6 << 20
        asked = {"C": 0.01, "cache_bytes": 4 << 20, "relative_gap": 1e-3, "tolerance": None, "max_passes": 1000}
        job = service.wait_until_ended(service.submit(dataset="two", machines=2, **asked))
        assert job["result"]["certificate"]["relative_duality_gap"] <= 1e-3, job["failure"]
    finally:
        nodes.close()
