"""The commands that talk to a service, as typed."""

import io
import json
import signal
import subprocess
from contextlib import redirect_stderr, redirect_stdout

import httpx
import pytest

from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import Service, running, wait_for

ENDLESS_OPTIONS = ("--cache", "128KiB", "--tolerance", "none", "--max-passes", "1000000")


class Typed:
    """Commands at a service, in this process: most of what a command takes is to start Python."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def __call__(self, *words: object, code: int = 0) -> str:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            returned = main([*map(str, words), "--url", self.service.url])
        assert returned == code, said.getvalue()
        return said.getvalue()


@pytest.fixture(scope="module")
def service(tmp_path_factory, text):
    """A running service with the problem as `data`, directories to import from (`shelf`) and export to (`out`)."""
    directory = tmp_path_factory.mktemp("service")
    for name in ("shelf", "out"):
        (directory / name).mkdir()
    own = Service(directory / "own", import_dir=directory / "shelf", export_dir=directory / "out")
    with running(own) as service:
        service.upload("data", text)
        yield service


@pytest.fixture(scope="module")
def typed(service):
    return Typed(service)


@pytest.fixture(scope="module")
def file(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("data") / "Train.1.svm"
    path.write_bytes(text)
    return path


@pytest.fixture
def endless(service):
    """A job that goes on until the test is over."""
    job = service.submit(**ENDLESS)
    service.wait_for_pass(job, 1)
    yield job
    httpx.post(f"{service.url}/v1/jobs/{job}/cancel")
    wait_for(lambda: not service.get("/v1/jobs?state=running")["jobs"])


def test_a_dataset_comes_and_goes(typed, file):
    assert "mine: 3,000 rows" in typed("data", "add", "mine", file)
    assert "mine" in typed("data", "ls")
    assert json.loads(typed("data", "ls", "--json"))["datasets"]
    typed("data", "rm", "mine")
    assert "mine" not in typed("data", "ls")
    assert "[unknown_dataset]" in typed("data", "rm", "mine", code=2)


def test_a_file_the_service_has_is_read_in_there(typed, text):
    (typed.service.data_dir.parents[1] / "shelf" / "a.svm").write_bytes(text)
    assert "shelved: ingesting" in typed("data", "add", "shelved", "--import", "a.svm")
    found = wait_for(lambda: (seen := typed.service.get("/v1/datasets/shelved"))["state"] == "ready" and seen)
    assert found["rows"] == 3000
    assert "[unknown_file]" in typed("data", "add", "other", "--import", "b.svm", code=2)


def test_train_there_as_here(typed, run_here, file, tmp_path):
    models = []
    for name, where in (("there.npz", ("--url", typed.service.url)), ("here.npz", ())):
        options = ("--pace", "fixed", "--max-passes", 2, "-o", tmp_path / name)
        done = run_here("train", file, *options, *where)
        assert done.returncode == 4 and "pass 2: M+ - M-" in done.stderr and str(tmp_path / name) in done.stderr
        with (tmp_path / name).open("rb") as opened:
            models.append(MODEL_FORMATS["npz"].read(opened))
    assert models[0].w.tolist() == models[1].w.tolist()
    assert "train" in typed("data", "ls")


def test_a_job_is_listed_shown_watched_and_stopped(typed, endless):
    assert endless in typed("job", "ls", "--state", "running")
    assert "running" in typed("job", "show", endless)
    wait_for(lambda: "rows/s" in typed("job", "show", endless))  # not before the end of a section
    assert json.loads(typed("job", "show", endless, "--json"))["id"] == endless
    watching = typed.service.processes.start(
        "job", "watch", endless, "--url", typed.service.url, stderr=subprocess.PIPE, text=True
    )
    lines = [watching.stderr.readline() for _ in range(2)]
    assert lines[0].startswith("warning: the cache does not hold all rows") and lines[1].startswith("pass 1: M+ - M-")
    assert "stop requested" in typed("job", "stop", endless) or typed.service.job(endless)["state"] == "stopped"
    rest, code = watching.stderr.read(), watching.wait(30)
    watching.stderr.close()
    assert code == 4 and "stopped, model mdl_" in rest


def test_a_model_is_fetched_in_the_format_of_its_name(typed, tmp_path):
    job = typed.service.train(dataset="data", tolerance=0.1)
    model, gap = job["model_id"], f"{job['result']['certificate']['gap']:.3g}"
    assert f" {gap} " in typed("job", "ls") and f"M+ - M- {gap} of 0.1" in typed("job", "show", job["id"])
    assert model in typed("model", "ls") and job["id"] in typed("model", "ls")
    typed("model", "get", model, "-o", tmp_path / "m.npz")
    assert (tmp_path / "m.npz").read_bytes() == typed.service.model(job)
    assert json.loads(typed("model", "get", model, "--json"))["id"] == model
    assert "[unknown_model]" in typed("model", "get", "mdl_0", code=2)


def test_what_the_file_cannot_say_is_refused_before_a_job_is_submitted(typed, tmp_path):
    (tmp_path / "half.svm").write_text("0.5 1:1\n-0.5 1:2\n")
    before = typed("job", "ls")
    assert "[not_exportable]" in typed("train", tmp_path / "half.svm", "-o", tmp_path / "m.model", code=2)
    assert "[unknown_format]" in typed("train", tmp_path / "half.svm", "-o", tmp_path / "m.xyz", code=2)
    assert typed("job", "ls") == before and not (tmp_path / "m.model").exists()


def test_a_cancelled_job_has_no_model_and_can_be_forgotten(typed, endless):
    assert "cancelled" in typed("job", "cancel", endless)
    typed("job", "watch", endless, code=130)
    typed("job", "rm", endless)
    assert "[unknown_job]" in typed("job", "show", endless, code=2)


def test_a_job_that_has_ended_goes_on_as_another(typed):
    first = typed.service.submit(dataset="data", tolerance=1e-30, max_passes=1, cache_bytes=1 << 17)
    typed("job", "watch", first, code=4)
    said = typed("job", "resume", first, "--max-passes", 100, "--tolerance", 0.5)
    second = said.split()[0]
    assert second != first and typed.service.job(second)["continues"] == first
    typed("job", "watch", second)
    assert "[not_possible]" not in typed("job", "show", second)


def test_an_interrupted_watcher_leaves_the_job_alone(typed, tmp_path):
    child = typed.service.processes.start(
        "train", "data", *ENDLESS_OPTIONS, "-o", tmp_path / "m", "--url", typed.service.url, stderr=subprocess.PIPE
    )
    assert child.stderr.readline().startswith(b"training as job_")
    assert child.stderr.readline().startswith(b"pass 1")
    child.send_signal(signal.SIGINT)
    rest, code = child.stderr.read().decode(), child.wait(10)
    child.stderr.close()
    assert code == 130 and "it goes on" in rest
    job = rest.split()[-1]
    assert typed.service.job(job)["state"] == "running"
    typed("job", "cancel", job)


def test_a_watcher_outlives_a_restart_of_the_service(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    job = service.submit(**ENDLESS)
    url = service.url
    watching = service.processes.start("job", "watch", job, "--json", "--url", url, stdout=subprocess.PIPE, text=True)
    assert json.loads(watching.stdout.readline())["pass"] == 1
    service.signal(signal.SIGKILL)
    service.wait(10)
    wait_for(lambda: not service.processes.alive("streamsvm.trainer.process"))
    service.start()
    service.wait_for_pass(job, 2, attempt=2)
    Typed(service)("job", "stop", job)
    *_, last = watching.stdout.read().splitlines()
    watching.stdout.close()
    assert json.loads(last)["result"]["stop_reason"] == "stopped" and watching.wait(10) == 4


def test_no_service_and_no_address(run_here):
    done = run_here("job", "ls", "--url", "http://127.0.0.1:9")
    assert done.returncode == 5 and "no service answers at http://127.0.0.1:9" in done.stderr
    for url in ("localhost:8000", "ftp://localhost", "http://"):
        assert run_here("job", "ls", "--url", url).returncode == 2


def test_a_dataset_is_predicted_there_and_the_prediction_listed_shown_and_forgotten(typed):
    model = typed.service.train(dataset="data", tolerance=0.1)["model_id"]
    said = typed("predict", model, "--dataset", "data", "-o", "a.csv", "--keep", "row", "--keep", "label")
    assert "3,000 rows predicted" in said
    predicted = typed.service.data_dir.parents[1] / "out" / "a.csv"
    assert predicted.read_text().startswith("row,input_label,label,decision_value\n0,")
    prediction = said.split()[1]
    assert prediction in typed("prediction", "ls") and prediction not in typed("prediction", "ls", "--state", "failed")
    assert "dataset data to a.csv" in (shown := typed("prediction", "show", prediction)) and "succeeded" in shown
    assert json.loads(typed("prediction", "show", prediction, "--json"))["result"]["rows"] == 3000
    assert json.loads(typed("prediction", "ls", "--json"))["predictions"][0]["id"] == prediction
    assert "[not_possible]" in typed("prediction", "cancel", prediction, code=2)
    typed("prediction", "rm", prediction)
    assert "[unknown_prediction]" in typed("prediction", "show", prediction, code=2)
    assert "[no_source]" in typed("predict", model, "-o", "b.csv", code=2)
