"""Datasets of an object store that the nodes of a real Ray cluster read in, each a part, and keep."""

import os
import shutil
import sqlite3

import httpx
import numpy as np
import pytest

from tests import s3 as stores
from tests.end_to_end.machines import OPTIMUM
from tests.end_to_end.service import PLAIN, Service, wait_for
from tests.ray_nodes import Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
URL = "s3://bucket/part-*"
ACCURATE = {"relative_gap": 1e-5, "tolerance": None, "max_passes": 2000}


@pytest.fixture(scope="module")
def store(text):
    """The problem in eight files."""
    with stores.running() as found:
        lines = text.splitlines(keepends=True)
        for number in range(8):
            found.put(f"bucket/part-{number}", b"".join(lines[number * 375 : (number + 1) * 375]))
        yield found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory, store):
    cluster = Nodes(tmp_path_factory.mktemp("nodes"), 2, store.environment())
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory, nodes, store):
    service = Service(tmp_path_factory.mktemp("service"), ray_address=nodes.address, import_sources="s3://bucket/")
    service.processes.environment |= store.environment()
    try:
        yield service.start()
    finally:
        service.kill()


def put(service, name, url=URL, **query):
    answer = httpx.put(f"{service.url}/v1/datasets/{name}", params={"import": url, **query}, **PLAIN)
    assert answer.status_code == 202, answer.text
    return wait_for(lambda: (found := service.get(f"/v1/datasets/{name}"))["state"] != "ingesting" and found)


@pytest.fixture
def data(service, nodes):
    """Spread over both nodes, which have nothing of it afterwards."""
    yield put(service, "data", machines=2)
    assert httpx.delete(f"{service.url}/v1/datasets/data", **PLAIN).status_code == 204
    wait_for(lambda: not parts(nodes))


def parts(nodes):
    return sorted(nodes.directory.glob("node*/datasets/*"))


def check(service, job_id):
    job = service.wait_until_ended(job_id)
    assert job["state"] == "succeeded", job["failure"]
    certificate = job["result"]["certificate"]
    assert certificate["relative_duality_gap"] <= 1e-5
    assert certificate["primal_objective"] == pytest.approx(OPTIMUM, rel=2e-5)
    return job


def test_a_dataset_is_spread_trained_on_and_forgotten(service, nodes, data):
    assert data["state"] == "ready", data["failure"]
    assert (data["rows"], data["machines"]) == (3000, 2)
    assert not list(service.data_dir.glob("datasets/*/blocks/*"))
    assert len(parts(nodes)) == 2
    job = check(service, service.submit(dataset="data", machines="all", **ACCURATE))
    machines = service.get(f"/v1/jobs/{job['id']}/history")["passes"][-1]["machines"]
    assert len({each["node"] for each in machines}) == 2
    body = {"dataset": "data", "C": 1.0}
    for method, path, json in (
        ("GET", "datasets/data/sample", None),
        ("POST", f"models/{job['model_id']}/evaluate", {"dataset": "data"}),
        ("DELETE", "datasets/data/blocks/0", None),
        ("POST", "jobs", body),
    ):
        answer = httpx.request(method, f"{service.url}/v1/{path}", json=json, **PLAIN)
        assert (answer.status_code, answer.json()["code"]) == (409, "dataset_spread"), answer.text
    answer = httpx.post(f"{service.url}/v1/jobs", json={**body, "machines": 3}, **PLAIN)
    assert answer.json()["code"] == "machines_range"
    assert "spread over 2 machines" in answer.json()["detail"]
    put(service, "other", machines=1)
    assert len(parts(nodes)) == 3
    assert httpx.delete(f"{service.url}/v1/datasets/other", **PLAIN).status_code == 204
    wait_for(lambda: len(parts(nodes)) == 2)


@pytest.mark.slow
def test_maps_that_need_statistics(service, data):
    assert data["machines"] == 2
    job = service.wait_until_ended(service.submit(dataset="data", machines=2, features=["scale"], **ACCURATE))
    assert job["result"]["certificate"]["w_error"] < 1e-6


def test_a_part_that_is_gone_is_read_in_again(service, nodes, data):
    for part in parts(nodes)[:1]:
        shutil.rmtree(part)
    check(service, service.submit(dataset="data", machines=2, **ACCURATE))
    assert len(parts(nodes)) == 2


def test_an_import_that_is_given_up_leaves_nothing(service, nodes):
    answer = httpx.put(f"{service.url}/v1/datasets/data", params={"import": URL, "machines": 2}, **PLAIN)
    assert answer.status_code == 202, answer.text
    wait_for(lambda: parts(nodes))
    assert httpx.delete(f"{service.url}/v1/datasets/data", **PLAIN).status_code == 204
    wait_for(lambda: not parts(nodes))


@pytest.mark.slow
def test_a_part_that_is_away_is_forgotten_when_it_is_back(service, nodes, tmp_path):
    put(service, "data", machines=2)
    away = parts(nodes)[0]
    shutil.move(away, tmp_path / "away")
    assert httpx.delete(f"{service.url}/v1/datasets/data", **PLAIN).status_code == 204
    wait_for(lambda: not parts(nodes))
    service.kill()
    shutil.move(tmp_path / "away", away)
    service.start()
    wait_for(lambda: not parts(nodes))
    wait_for(lambda: not list((service.data_dir / "datasets").iterdir()))


@pytest.mark.slow
def test_a_kill_between_publishing_and_recording_leaves_no_part(service, nodes, data):
    before = parts(nodes)
    service.kill()
    with sqlite3.connect(service.data_dir / "streamsvm.sqlite") as database:
        database.execute("UPDATE datasets SET state = 'ingesting'")
    database.close()
    service.start()
    wait_for(lambda: service.get("/v1/datasets/data")["state"] == "ready")
    wait_for(lambda: len(parts(nodes)) == 2 and not set(parts(nodes)) & set(before))


def test_what_is_wrong_is_told_with_its_place(service, nodes, store, text):
    lines = text.splitlines(keepends=True)
    store.put("bucket/bad-0", b"".join(lines[:100]))
    store.put("bucket/bad-1", b"".join(lines[100:199]) + b"1 2:x\n")
    wait_for(lambda: not parts(nodes))  # those of the test before
    failure = put(service, "bad", "s3://bucket/bad-*", machines=2)["failure"]
    assert failure["code"] == "bad_number"
    assert failure["at"]["file"] == "s3://bucket/bad-1"
    assert failure["at"]["line"] == 100
    assert not parts(nodes)
    answer = httpx.put(f"{service.url}/v1/datasets/x", params={"machines": 2}, content=text, **PLAIN)
    assert answer.json()["code"] == "machines_range"


@pytest.mark.slow
def test_more_machines_than_files_or_nodes(service, store, text):
    store.put("bucket/few", b"".join(text.splitlines(keepends=True)[:100]))
    assert "nothing is left for machine 1" in put(service, "one", "s3://bucket/few", machines=2)["failure"]["detail"]
    assert "no file matches" in put(service, "none", "s3://bucket/none*", machines=2)["failure"]["detail"]
    assert "2 nodes" in put(service, "many", machines=3)["failure"]["detail"]


@pytest.mark.slow
def test_a_command_trains_on_machines_that_read_a_url(service, nodes, tmp_path):
    done = service.processes.run("train", URL, "--machines", "2", "--ray", nodes.address, "--relative-gap", "1e-5",
                                 "-e", "none", "--max-passes", "2000", "-o", tmp_path / "m.npz", text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "m.npz")["w"].any()
    assert not parts(nodes)


@pytest.mark.slow
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
