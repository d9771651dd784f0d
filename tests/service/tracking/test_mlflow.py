"""A service's jobs on a real MLflow server: parameters, curve, result, and models that pyfunc loads."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make test-mlflow")
pytest.importorskip("mlflow.server", reason="this MLflow has no server")

import httpx  # noqa: E402
import pandas  # noqa: E402

from streamsvm import Client, load  # noqa: E402
from tests.end_to_end.service import Service, wait_for  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = np.random.default_rng(0)
FRAME = pandas.DataFrame({"size": RANDOM.normal(size=300), "color": RANDOM.choice(["red", "blue"], 300)})
FRAME["label"] = np.where(FRAME["size"] + (FRAME["color"] == "red") > 0.5, "yes", "no")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of an MLflow server that keeps what it gets below a directory of its own."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    places = ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", str(folder / "artifacts")]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # seven more processes, for evaluations
    process = subprocess.Popen([*command, *places], cwd=folder, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url))
        mlflow.set_tracking_uri(url)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("service"), mlflow_uri=server, mlflow_experiment="svm")
    try:
        client = Client(service.start().url)
        client.add_dataset("table", FRAME, categorical="color")
        yield client
    finally:
        service.kill()


def logged(job) -> "mlflow.entities.Run":
    """The run of a job, once it is complete."""

    def found():
        runs = mlflow.search_runs(
            experiment_names=["svm"], filter_string=f"tags.`streamsvm.job` = '{job.id}'", output_format="list"
        ) if mlflow.get_experiment_by_name("svm") else []  # fmt: skip
        return next((run for run in runs if run.info.status in ("FINISHED", "FAILED", "KILLED")), None)

    return wait_for(found)


def test_a_job_is_a_run_with_its_curve_and_a_model_that_predicts(client, tmp_path):
    job = client.submit("table", C=2.0, probability="sigmoid", folds=3, labels={"team": "a"}).wait()
    run = logged(job)
    assert run.info.status == "FINISHED" and run.info.run_name == job.id
    told = wait_for(lambda: client.job(job.id).view["transitions"][-1].get("tracking"))
    assert (told["state"], told["run_id"]) == ("logged", run.info.run_id)
    assert run.data.params["C"] == "2.0" and run.data.params["probability"] == "sigmoid"
    assert run.data.tags["label.team"] == "a" and run.data.tags["streamsvm.dataset"] == "table"
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "relative_gap_bound")
    expected = [(each["pass"], each["relative_gap_bound"]) for each in job.history()]
    assert [(each.step, each.value) for each in points] == [each for each in expected if each[1] is not None]
    assert run.data.metrics["certificate/gap"] == job.view["result"]["certificate"]["gap"]
    result = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/result.json")
    assert result["certificate"] == job.view["result"]["certificate"]
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    job.models[0].download(tmp_path / "model.npz")
    own = load(tmp_path / "model.npz")
    rows = FRAME[["color", "size"]]
    assert model.predict(rows).tolist() == own.predict(rows).tolist()
    for output, expected in (("decision_value", own.decision_function), ("probability", own.predict_proba)):
        assert np.array_equal(model.predict(rows, params={"output": output}), expected(rows))
    names = {each.name: str(each.type) for each in model.metadata.signature.inputs}
    assert names == {"size": "DataType.double", "color": "DataType.string"}
    with pytest.raises(Exception, match="output is one of"):
        model.predict(rows, params={"output": "odds"})


def test_models_of_several_C_of_matrices(client, tmp_path):
    X = RANDOM.normal(size=(100, 4))
    lines = (f"{1 if x[0] > 0 else -1} " + " ".join(f"{k + 1}:{v}" for k, v in enumerate(x)) for x in X)
    (tmp_path / "rows.svm").write_text("\n".join(lines))
    client.add_dataset("numbers", tmp_path / "rows.svm")
    job = client.submit("numbers", C=[0.5, 2.0]).wait()
    run = logged(job)
    names = {mlflow.get_logged_model(each.model_id).name for each in run.outputs.model_outputs}
    assert names == {"model_C_0_5", "model_C_2"}
    assert {"lane_0/relative_gap_bound", "lane_1/relative_gap_bound"} <= run.data.metrics.keys()
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model_C_2")
    (chosen,) = (each["model_id"] for each in job.view["result"]["models"] if each["C"] == 2.0)
    client.model(chosen).download(tmp_path / "model.npz")
    assert model.predict(X).tolist() == load(tmp_path / "model.npz").predict(X).tolist()


def test_documents(client, tmp_path):
    texts = ["a good film", "a bad film"] * 20
    (tmp_path / "t.csv").write_text("label,text\n" + "".join(f"{'pos' if 'good' in t else 'neg'},{t}\n" for t in texts))
    client.add_dataset("films", tmp_path / "t.csv", text_column="text")
    run = logged(client.submit("films").wait())
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    assert model.predict(["good", "bad"]).tolist() == ["pos", "neg"]


def test_a_job_that_was_cancelled_is_a_run_without_a_model(client):
    job = client.submit("table", tolerance=1e-300, relative_gap=None, max_passes=10**6).cancel()
    run = logged(job)
    assert run.info.status == "KILLED" and not run.outputs.model_outputs


def test_a_job_is_logged_again_into_its_run(client, server, tmp_path):
    job = client.submit("table", C=0.25).wait()
    run = logged(job)
    directory = next(path for path in Path(tmp_path.parent).glob("service*/data"))
    command = [sys.executable, "-m", "streamsvm.service.tracking.log_job", str(directory), job.id]
    environment = {"STREAMSVM_MLFLOW_URI": server, "STREAMSVM_MLFLOW_EXPERIMENT": "svm"}
    again = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    assert again.stdout.split()[-1] == run.info.run_id
    after = mlflow.get_run(run.info.run_id)
    assert after.data.metrics == run.data.metrics and len(after.outputs.model_outputs) == 1
