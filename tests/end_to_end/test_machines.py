"""Jobs on the nodes of a real Ray cluster, through the service; nodes and processes are killed and paused.

Also datasets of an object store that the nodes read in, each a part, and keep.
"""

import random
import shutil
import signal
import time

import httpx
import pytest

from tests.end_to_end.machines import (
    OPTIMUM,
    URL,
    again,
    begun,
    forget,
    goes_on,
    nodes,
    nothing_left,
    parts,
    processes,
    put,
    service,
    spread,
    stop,
    store,
)
from tests.end_to_end.service import PLAIN, wait_for

pytest.importorskip("ray", reason="Ray is not installed: pip install streamsvm[ray]")
__all__ = ["nodes", "nothing_left", "service", "spread", "store"]
GAP = 1e-3
ACCURATE = {"relative_gap": GAP, "tolerance": None, "max_passes": 2000}


# Datasets that are spread come first: nodes have no other yet.


def check(service, job_id):
    job = service.wait_until_ended(job_id)
    assert job["state"] == "succeeded", job["failure"]
    certificate = job["result"]["certificate"]
    assert certificate["relative_duality_gap"] <= GAP and certificate["w_error"] < 1e-6
    assert certificate["primal_objective"] == pytest.approx(OPTIMUM, rel=2 * GAP)
    return job


def test_a_dataset_is_spread_trained_on_and_forgotten(service, nodes, spread):
    assert spread["state"] == "ready", spread["failure"]
    assert (spread["rows"], spread["machines"]) == (3000, 2)
    assert len(list(service.data_dir.glob("datasets/*/blocks/*"))) == 8  # those of `data`
    assert len(parts(nodes)) == 2
    job = check(service, service.submit(dataset="spread", machines="all", **ACCURATE))
    machines = service.get(f"/v1/jobs/{job['id']}/history")["passes"][-1]["machines"]
    assert len({each["node"] for each in machines}) == 2 and all(each["sent_bytes"] > 0 for each in machines)
    body = {"dataset": "spread", "C": 1.0}
    for method, path, json in (
        ("GET", "datasets/spread/sample", None),
        ("POST", f"models/{job['model_id']}/evaluate", {"dataset": "spread"}),
        ("DELETE", "datasets/spread/blocks/0", None),
        ("POST", "jobs", body),
    ):
        answer = httpx.request(method, f"{service.url}/v1/{path}", json=json, **PLAIN)
        assert (answer.status_code, answer.json()["code"]) == (409, "dataset_spread"), answer.text
    answer = httpx.post(f"{service.url}/v1/jobs", json={**body, "machines": 3}, **PLAIN)
    assert answer.json()["code"] == "machines_range"
    assert "spread over 2 machines" in answer.json()["detail"]
    # A part that is gone is read in again.
    shutil.rmtree(parts(nodes)[0])
    check(service, service.submit(dataset="spread", machines=2, **ACCURATE))
    assert len(parts(nodes)) == 2


def test_an_import_that_is_given_up_leaves_nothing(service, nodes):
    answer = httpx.put(f"{service.url}/v1/datasets/spread", params={"import": URL, "machines": 2}, **PLAIN)
    assert answer.status_code == 202, answer.text
    wait_for(lambda: parts(nodes))
    forget(service, "spread")
    wait_for(lambda: not parts(nodes))


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


@pytest.mark.parametrize("C", [1.0, pytest.param([0.1, 1.0, 10.0], marks=pytest.mark.slow)])
def test_a_job_is_resumed_where_it_ended(service, C):
    fields = {"dataset": "data", "machines": 2, "relative_gap": 1e-4, "tolerance": None, "C": C}
    first = service.wait_until_ended(service.submit(**fields, max_passes=3))
    assert first["result"]["stop_reason"] == "max_passes"
    answer = httpx.post(f"{service.url}/v1/jobs/{first['id']}/resume", json={"max_passes": 1000}, **PLAIN)
    job = service.wait_until_ended(answer.json()["id"])
    assert job["result"]["stop_reason"] == "relative_gap", job["failure"]
    passes = service.get(f"/v1/jobs/{job['id']}/history")["passes"]
    assert [line["pass"] for line in passes] == list(range(1, len(passes) + 1))
    # Not from zero.
    for before, after in zip(*(line.get("lanes", [line]) for line in passes[2:4]), strict=True):
        assert after["dual_objective"] >= before["dual_objective"] * (1 - 1e-9)
    assert passes[3]["elapsed_seconds"] > passes[2]["elapsed_seconds"]
    assert passes[3]["rows_streamed"] >= passes[2]["rows_streamed"]


@pytest.mark.parametrize(
    ("before", "after"), [(2, None), *(pytest.param(before, 2, marks=pytest.mark.slow) for before in (None, 2))]
)
def test_a_job_begins_with_what_another_one_found(service, before, after):
    fields = {"dataset": "data", "relative_gap": 1e-4, "tolerance": None, "max_passes": 1000}
    first = service.wait_until_ended(service.submit(**fields, machines=before))
    job = service.wait_until_ended(service.submit(**fields, machines=after, warm_start=first["id"]))
    assert job["result"]["stop_reason"] == "relative_gap", job["failure"]
    assert job["result"]["passes"] <= 2
    gaps = [each["result"]["certificate"]["primal_objective"] for each in (first, job)]
    assert gaps[0] == pytest.approx(gaps[1], rel=2e-4)
    assert {"rows": 3000, "of": 3000} in [step.get("warm_start") for step in job["transitions"]]


@pytest.mark.slow
@again
@pytest.mark.parametrize(
    "process", ["streamsvm.trainer.distributed.shard", "streamsvm.reader.stream.process", "ray::Agent"]
)
def test_a_process_of_a_machine_is_killed(service, process, _number):
    job_id = begun(service)
    processes(process)[0].kill()
    goes_on(service, job_id)


@pytest.mark.slow
@again
def test_an_agent_is_killed_near_the_end(service, _number):
    """Perhaps while it tells of the rows that it has held out."""
    job_id = service.submit(dataset="data", machines=2, tolerance=None, max_passes=8, folds=3, checkpoint_seconds=1)
    service.wait_for_pass(job_id, 7)
    time.sleep(random.uniform(0, 0.5))
    for process in processes("ray::Agent")[:1]:
        process.kill()
    job = service.wait_until_ended(job_id)
    assert job["state"] == "succeeded", job["failure"]
    assert 0.6 < job["result"]["cv"][0]["all"]["accuracy"] < 1


@pytest.mark.slow
@again
def test_a_node_is_killed_and_another_one_comes(service, nodes, _number):
    job_id = begun(service)
    nodes.kill_one()
    time.sleep(1)
    nodes.add()
    goes_on(service, job_id)


@pytest.mark.slow
@again
def test_a_machine_is_paused_and_let_go(service, _number):
    job_id = begun(service)
    paused = processes("streamsvm.trainer.distributed.shard")[0]
    paused.send_signal(signal.SIGSTOP)
    try:
        now = service.job(job_id)["progress"]["pass"]
        service.wait_for_pass(job_id, now + 2)  # without it
    finally:
        paused.send_signal(signal.SIGCONT)
    goes_on(service, job_id)


@pytest.mark.slow
@again
def test_the_coordinator_is_killed(service, _number):
    job_id = begun(service)
    time.sleep(1)  # something is kept each second
    processes("streamsvm.service.cluster.process")[0].kill()
    service.wait_for_pass(job_id, 1, attempt=2)
    goes_on(service, job_id)


@pytest.mark.slow
def test_a_job_that_fails_leaves_nothing(service):
    job_id = begun(service)
    while service.job(job_id)["state"] in ("queued", "running"):
        for process in processes("streamsvm.service.cluster.process"):
            process.kill()
        time.sleep(0.5)
    assert service.job(job_id)["failure"]["code"] == "crash_loop"


@pytest.mark.slow
def test_a_block_is_damaged_on_a_node(service, nodes):
    stop(service, begun(service))
    # A node that was killed has left its copy, too.
    damaged = {}
    for block in nodes.directory.glob("node*/datasets/*/blocks/*.blk"):
        content = bytearray(block.read_bytes())
        content[len(content) // 2] ^= 255
        block.write_bytes(content)
        damaged[block] = bytes(content)
    stop(service, begun(service))
    again = {block.parents[3] for block, content in damaged.items() if block.read_bytes() != content}
    assert len(again) == 2  # nodes


@pytest.mark.slow
def test_a_job_is_cancelled(service):
    job_id = begun(service)
    httpx.post(f"{service.url}/v1/jobs/{job_id}/cancel", **PLAIN)
    assert service.wait_until_ended(job_id)["state"] == "cancelled"


def test_more_machines_than_nodes_are_refused_with_their_number(service):
    job = service.wait_until_ended(service.submit(dataset="data", machines=5))
    assert job["failure"]["code"] == "machines_range"
    assert "2 nodes" in job["failure"]["message"]
