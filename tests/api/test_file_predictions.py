"""/v1/predictions: submitted, run by the worker's lane, cancelled, killed; nothing half-written stays."""

import os
import signal
import time
from dataclasses import replace
from itertools import pairwise
from threading import Thread

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.processes.predictions import PredictionWork
from streamsvm.service.processes.work import Needs
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service, check_problem
from tests.contracts.problems import make_dataset
from tests.end_to_end.service import wait_for

URL = "/v1/predictions"
W = np.array([1.0, -2.0])
MODEL = Model(W, (1.0, -1.0), 1, about={"input": {**named_numbers(["a", "b"]), "has_names": True}})


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """(X, the folder of its rows in 200 files)."""
    folder, X = tmp_path_factory.mktemp("parts"), np.arange(12_000).reshape(-1, 2) / 4
    for part, rows in enumerate(np.split(np.arange(6000), 200)):
        columns = {"id": rows, "a": X[rows, 0], "b": X[rows, 1]}
        parquet.write_table(pyarrow.table(columns), folder / f"part-{part:03}.parquet")
    return X, folder


@pytest.fixture
def service(tmp_path, parts):
    """A service with a model named `churn`, the parts to import, and a folder for exports."""
    folders = {name: tmp_path / name for name in ("import", "export")}
    for folder in folders.values():
        folder.mkdir()
    (folders["export"] / "daily").mkdir()
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (folders["import"] / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folders["export"] / "link").symlink_to(tmp_path)
    X, files = parts
    for file in files.iterdir():
        (folders["import"] / file.name).hardlink_to(file)
    service = Service(tmp_path / "data", import_dir=folders["import"], export_dir=folders["export"],
                      export_destinations=("s3://out/daily",))  # fmt: skip
    service.model = service.add_model(service.add_dataset("data"), MODEL)
    service.store.register_model("churn", service.model)
    service.expected, service.exported = X @ W, folders["export"]
    return service


@pytest.fixture
def lane(service, monkeypatch):
    """The lane of a worker, whose processes have the service's settings."""
    for name in ("import_dir", "export_dir"):
        monkeypatch.setenv(f"STREAMSVM_{name.upper()}", str(getattr(service.settings, name)))
    lane = PredictionWork(service.settings, service.store)
    yield lane
    lane.shutdown()


def asked(**more) -> dict:
    return {"model": "churn", "import": "part-*.parquet", "destination": "daily/out.parquet", "keep": ["id"], **more}


def submit(service, headers=None, **more) -> dict:
    response = service.request("POST", URL, json=asked(**more), headers=headers or {})
    assert response.status_code == 202, response.text
    assert response.headers["location"] == f"{URL}/{response.json()['id']}"
    return response.json()


def shown(service, prediction) -> dict:
    return service.request("GET", f"{URL}/{prediction['id']}").json()


def run(service, lane, prediction, *states: str) -> dict:
    """Run the lane until the prediction is in one of these states."""

    def ended():
        lane.step()
        seen = shown(service, prediction)
        return seen["state"] in states and seen

    return wait_for(ended)


def crash(service, lane, prediction) -> None:
    """Run the lane until it has seen the crash of the prediction."""
    wait_for(lambda: lane.step() or service.store.job(prediction["id"], "prediction")["crashes"] == 1)


def the(lane):
    """What runs."""
    (running,) = lane.active.values()
    return running


def check_whole(service):
    found = parquet.read_table(service.exported / "daily/out.parquet")
    assert found["id"].to_pylist() == list(range(6000))
    assert found["decision_value"].to_numpy().tolist() == service.expected.tolist()
    assert [path.name for path in service.exported.glob("daily/.*")] == []
    assert list(service.settings.predictions.iterdir()) == []


def test_files_are_predicted(service, lane):
    prediction = submit(service)
    assert (prediction["state"], prediction["model_id"], prediction["progress"]) == ("queued", service.model, None)
    check_problem(service.request("DELETE", f"/v1/models/{service.model}"), "model_in_use", 409)
    ended = run(service, lane, prediction, "succeeded", "failed")
    assert ended["state"] == "succeeded", ended["failure"]
    assert ended["progress"]["rows"] == ended["result"]["rows"] == 6000
    assert ended["progress"]["bytes"] == ended["progress"]["total_bytes"] > 0
    check_whole(service)
    assert (service.exported / "daily/out.parquet").stat().st_mode & 0o777 == 0o644
    assert service.request("GET", f"{URL}?state=succeeded").json()["predictions"] == [ended]
    check_problem(service.request("POST", URL, json=asked()), "destination_exists", 409)
    check_problem(service.request("POST", f"{URL}/{ended['id']}/cancel"), "not_possible", 409)
    assert service.request("DELETE", f"{URL}/{ended['id']}").status_code == 204
    check_problem(service.request("GET", f"{URL}/{ended['id']}"), "unknown_prediction", 404)
    again = run(service, lane, submit(service, overwrite=True, format="ndjson", outputs=["label"]), "succeeded")
    assert (service.exported / again["spec"]["destination"]).read_text().startswith('{"id":0,"label":-1.0}\n')


def test_a_killed_prediction_goes_on(service, lane):
    """Killed twice among its pieces; the worker, too, is followed by another."""
    prediction = submit(service)
    directory = service.settings.predictions / prediction["id"]
    for kills in range(2):
        wait_for(lambda: lane.step() or lane.active)
        ends = time.monotonic() + 60
        while not any((directory / "pieces").glob(f"*{5 + kills}.json")):
            assert time.monotonic() < ends
            time.sleep(0.001)
        os.kill(the(lane).child.pid, signal.SIGKILL)
        if kills == 0:
            crash(service, lane, prediction)
    other = PredictionWork(service.settings, service.store)  # of a worker that has died
    if service.store.job(prediction["id"], "prediction")["state"] == "running":
        other.recover()
    lane.active.clear()
    ended = run(service, other, prediction, "succeeded", "failed")
    assert ended["state"] == "succeeded", ended
    check_whole(service)


def test_a_prediction_is_cancelled(service, lane):
    queued = submit(service)
    assert service.request("POST", f"{URL}/{queued['id']}/cancel").json()["state"] == "cancelled"
    running = submit(service)
    wait_for(lambda: lane.step() or lane.active)
    service.request("POST", f"{URL}/{running['id']}/cancel")
    ended = run(service, lane, running, "cancelled", "succeeded")
    assert ended["state"] == "cancelled"
    assert list(service.exported.glob("daily/*")) == list(service.settings.predictions.iterdir()) == []


FAULTS = {
    "column_missing": {"import": "short.csv", "keep": []},
    "keep_missing": {"keep": ["nothing"]},
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_prediction_fails(service, lane, code):
    (service.settings.import_dir / "short.csv").write_text("a\n1\n")
    ended = run(service, lane, submit(service, **FAULTS[code]), "failed", "succeeded")
    assert ended["failure"]["code"] == code and ended["failure"]["message"] and ended["failure"]["hint"]
    assert list(service.exported.glob("daily/*")) == list(service.settings.predictions.iterdir()) == []


REFUSED = {
    "unknown_model": {"model": "nobody"},
    "unknown_file": {"import": "none-*.csv"},
    "import_invalid": {"import": "link.csv"},
    "import_forbidden": {"import": "s3://other/rows.csv"},
    "export_invalid": {"destination": "link/out.csv"},
    "export_forbidden": {"destination": "s3://out/weekly/out.csv"},
    "unknown_format": {"destination": "daily/out.xls"},
    "no_probabilities": {"outputs": ["probability"]},
    "bad_request": {"kept": ["id"]},
}


def test_what_cannot_run_is_refused(service):
    for code, fields in REFUSED.items():
        check_problem(service.request("POST", URL, json=asked(**fields)), code)
    check_problem(service.request("POST", URL, json=asked(**{"import": "*" + "a" * 300})), "unknown_file")
    wrong = "../out.csv", "daily/../../out.csv", "/etc/out.csv", "daily/.out.csv", "none/out.csv"
    for destination in (*wrong, "d" * 252 + ".csv", "d" * 202 + ".csv", "d" * 300 + "/out.csv"):
        check_problem(service.request("POST", URL, json=asked(destination=destination)), "export_invalid", 422)
    assert service.request("GET", URL).json() == {"predictions": [], "next_page_token": None}


def test_what_is_wrong_with_a_request_is_named(service):
    for fields, detail, hint in (
        ({"modle": "churn"}, "there is no field 'modle' in a prediction", "Did you mean model?"),
        ({"model": "churn"}, "destination is missing", "destination: file below the export directory"),
        ({"model": 3, "destination": "a.csv"}, "model: Input should be a valid string", "model: id, name"),
    ):
        problem = check_problem(service.request("POST", URL, json=fields), "bad_request", 400)
        assert problem["detail"] == detail and problem["hint"].startswith(hint)
    for more in (
        {"import": None},
        {"dataset": "data"},
        {"import": None, "dataset": "data", "options": {"header": "no"}},
    ):
        check_problem(service.request("POST", URL, json=asked(keep=[], **more)), "bad_request")


def test_a_dataset_is_predicted_and_stays_until_then(service, lane):
    dataset = {"import": None, "dataset": "numbers", "keep": ["row", "label"]}
    service.add_dataset("numbers", np.array([[1.0, 0.5], [-2.0, 0.25], [0.0, 3.0]]), np.array([1, -1, 1]))
    prediction = submit(service, **dataset)
    assert (prediction["spec"]["dataset"], prediction["spec"]["import"]) == ("numbers", None)
    check_problem(service.request("DELETE", "/v1/datasets/numbers"), "dataset_in_use", 409)
    check_problem(service.request("DELETE", "/v1/datasets/numbers/blocks/0"), "dataset_in_use", 409)
    ended = run(service, lane, prediction, "succeeded", "failed")
    assert ended["state"] == "succeeded" and ended["result"]["rows"] == 3, ended["failure"]
    found = parquet.read_table(service.exported / "daily/out.parquet")
    assert found.column_names == ["row", "input_label", "label", "decision_value"]
    assert sorted(found["decision_value"].to_pylist()) == [-6.0, -2.5, 0.0]
    assert sum(np.equal(found["input_label"], found["label"])) == 1
    assert ended["result"]["judged"] == "accuracy 33.3333% (1/3)"
    assert ended["result"]["judged"] in service.request("GET", f"/predictions/{prediction['id']}").text
    assert service.request("DELETE", "/v1/datasets/numbers").status_code == 204
    check_problem(service.request("POST", URL, json=asked(**dataset, overwrite=True)), "unknown_dataset", 404)


OF_DATASETS = {
    "unknown_dataset": {"dataset": "nobody"},
    "not_ready": {"dataset": "coming"},
    "index_base_mismatch": {"dataset": "zero"},
    "keep_missing": {"keep": ["id"]},
}


def test_a_dataset_that_cannot_be_predicted_is_refused(service):
    service.store.add_dataset("coming")
    zero = service.store.add_dataset("zero")
    make_dataset(service.settings.datasets / zero, np.eye(2), np.array([1, -1]), 0)
    service.store.set_dataset_ready(zero)
    for code, given in OF_DATASETS.items():
        fields = {"import": None, "dataset": "data", "keep": [], **given}
        check_problem(service.request("POST", URL, json=asked(**fields)), code)


def test_a_prediction_that_is_silent_is_killed_and_goes_on(service, lane):
    prediction = submit(service)
    wait_for(lambda: lane.step() or lane.active)
    child = the(lane).child
    os.kill(child.pid, signal.SIGSTOP)
    patient, lane._settings = lane._settings, replace(lane._settings, stall_seconds=0.1)
    crash(service, lane, prediction)
    lane._settings = patient
    assert child.poll() == -signal.SIGKILL
    assert run(service, lane, prediction, "succeeded", "failed")["state"] == "succeeded"
    check_whole(service)


def test_a_prediction_that_is_always_silent_fails(service, lane, monkeypatch):
    monkeypatch.setattr("streamsvm.service.processes.predictions._PROCESS", "tests.service.predictions.silent")
    lane._settings = replace(lane._settings, stall_seconds=0.05, max_crashes=1)
    ended = run(service, lane, submit(service), "failed")
    assert ended["failure"]["code"] == "crash_loop" and "no sign of life" in ended["failure"]["message"]


def test_beside_a_job_a_prediction_begins_when_its_model_fits_into_memory(service, lane, monkeypatch):
    free = [lane._memory_bytes(service.model) - 1]
    monkeypatch.setattr("streamsvm.service.processes.predictions.free_memory", lambda: free[0])
    size = sum(path.stat().st_size for path in (service.settings.models / service.model).iterdir())
    assert lane._memory_bytes(service.model) == lane._memory_bytes("mdl_gone") + 2 * size > 2 * size
    prediction = submit(service)
    lane.step([Needs()])
    assert shown(service, prediction)["state"] == "queued" and not lane.needs
    free[0] += 1
    lane.step([Needs()])
    assert shown(service, prediction)["state"] == "running" and lane.needs == [Needs(free[0])]


def test_a_waiting_lane_reads_its_records_only_after_a_write(service, lane, monkeypatch):
    monkeypatch.setattr("streamsvm.service.processes.predictions.free_memory", lambda: 0)
    submit(service)
    wait_for(lambda: lane.step([Needs()]) or lane._waiting() is lane._waiting())
    monkeypatch.setattr(type(service.store._database), "rows", lambda *_: pytest.fail("they are read"))
    for _ in range(100):
        lane.step([Needs()])


def test_a_request_that_is_sent_again_makes_one_prediction(service):
    first, again = (submit(service, {"Idempotency-Key": "k"}) for _ in range(2))
    assert first == again and len(service.store.jobs(kind="prediction")) == 1
    other = service.request("POST", URL, json=asked(keep=[]), headers={"Idempotency-Key": "k"})
    check_problem(other, "idempotency_key_reused", 422)


def test_the_answer_waits_for_the_end(service):
    prediction, begun = submit(service), time.monotonic()
    assert service.request("GET", f"{URL}/{prediction['id']}?wait_seconds=0.3").json()["state"] == "queued"
    assert time.monotonic() - begun >= 0.3


def test_who_waits_reads_the_record_only_after_a_write(service, monkeypatch):
    prediction, reads = submit(service), []
    read = type(service.store).job
    monkeypatch.setattr(type(service.store), "job", lambda *of: reads.append(time.monotonic()) or read(*of))
    monkeypatch.setattr("streamsvm.api.routes.predictions._LOOK_SECONDS", 0.001)

    def cancel():
        wait_for(lambda: reads)
        time.sleep(0.3)
        service.store.request(prediction["id"], "cancel", "prediction")

    Thread(target=cancel).start()
    assert service.request("GET", f"{URL}/{prediction['id']}?wait_seconds=60").json()["state"] == "cancelled"
    # Again and again in the instant after a write, whose time tells no more than a tick of the clock.
    spans = [later - earlier for earlier, later in pairwise(reads)]
    assert max(spans) > 0.1
