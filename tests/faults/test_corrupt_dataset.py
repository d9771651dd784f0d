"""A dataset that is damaged while the service has it: named, never trained on."""

import httpx

from tests.end_to_end.conftest import ENDLESS

SPEC = {**ENDLESS, "max_passes": 3}
COPIES = 3  # of the text: two blocks


def test_a_job_on_a_damaged_block_fails_once_and_names_it(new_service, text):
    service = new_service().start()
    service.upload("data", COPIES * text)
    block = sorted(service.data_dir.glob("datasets/*/blocks/*.blk"))[1]
    sound = block.read_bytes()
    damaged = bytearray(sound)
    damaged[len(sound) // 2] ^= 1
    block.write_bytes(damaged)
    failed = service.wait_until_ended(service.submit(**SPEC))
    assert (failed["state"], failed["attempt"], failed["model_id"]) == ("failed", 1, None)
    assert failed["failure"]["code"] == "dataset_corrupt"
    assert failed["failure"]["message"].startswith("block 1: ") and failed["failure"]["hint"]
    block.write_bytes(sound)
    assert service.wait_until_ended(service.submit(**SPEC))["state"] == "succeeded"
    assert service.processes.run("doctor", "--data-dir", service.data_dir).returncode == 0


def test_a_block_of_another_dataset_is_named(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    service.upload("other", text)
    (mine, *_), (others, *_) = (sorted(path.glob("*.blk")) for path in service.data_dir.glob("datasets/*/blocks"))
    mine.write_bytes(others.read_bytes())
    ended = [service.wait_until_ended(service.submit(**{**SPEC, "dataset": name})) for name in ("data", "other")]
    assert sorted(job["state"] for job in ended) == ["failed", "succeeded"]
    (failure,) = (job["failure"] for job in ended if job["failure"])
    assert failure["code"] == "dataset_corrupt" and failure["message"].startswith("block 0: ")


def test_a_damaged_manifest_is_named(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    job = service.submit(**ENDLESS)
    service.wait_for_state(job, "running")
    (manifest,) = service.data_dir.glob("datasets/*/manifest.json")
    manifest.write_bytes(manifest.read_bytes()[:-30])
    for response in (httpx.post(f"{service.url}/v1/jobs", json=SPEC), httpx.get(f"{service.url}/v1/datasets/data")):
        assert (response.status_code, response.json()["code"]) == (500, "dataset_corrupt")
