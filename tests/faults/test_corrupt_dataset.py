"""A dataset that is damaged while the service has it: named, never trained on."""

from tests.end_to_end.conftest import ENDLESS

SPEC = {**ENDLESS, "max_passes": 3}
COPIES = 3  # of the text: two blocks


def test_a_job_on_a_damaged_block_fails_once_and_names_it(service, text):
    block = sorted(service.upload("two", COPIES * text).glob("blocks/*.blk"))[1]
    sound = block.read_bytes()
    damaged = bytearray(sound)
    damaged[len(sound) // 2] ^= 1
    block.write_bytes(damaged)
    spec = {**SPEC, "dataset": "two"}
    failed = service.wait_until_ended(service.submit(**spec))
    assert (failed["state"], failed["attempt"], failed["model_id"]) == ("failed", 1, None)
    assert failed["failure"]["code"] == "dataset_corrupt"
    assert failed["failure"]["message"].startswith("block 1: ") and failed["failure"]["hint"]
    block.write_bytes(sound)
    service.train(**spec)
    assert service.processes.run("doctor", "--data-dir", service.data_dir).returncode == 0
