"""The examples that follow a job and tell it on, over lost connections; and MLflow's own flavour for the estimators.

Where MLflow is installed (make test-mlflow) its server gets the runs; elsewhere a stand-in takes its client's calls.
"""

import json
import math
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import httpx
import numpy as np
import pytest

import streamsvm
from streamsvm import Client, StreamSVC
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import Service, running, wait_for

FOLDER = Path(streamsvm.__file__).with_name("examples")
ENDLESS = {"pace": "fixed", "tolerance": 1e-300, "max_passes": 10**6, "cache_bytes": 1 << 17}
X = np.random.default_rng(0).normal(size=(200, 4))
Y = np.where(X[:, 0] > 0, "up", "down")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """With the dataset `rows`, of which the cache of an endless job holds a part."""
    with running(Service(tmp_path_factory.mktemp("service"))) as service:
        service.upload("rows", libsvm_text(*random_problem(3000, 400)))
        yield service


@pytest.fixture
def client(service):
    return Client(service.url)


class Dropping:
    """Passes bytes on to a service, within `with`, and loses the first connection that has answered with a pass.

    resumed  the `Last-Event-ID` of each request that had one
    """

    def __init__(self, url: str) -> None:
        self._address, self._has_dropped, self.resumed = ("127.0.0.1", int(url.rsplit(":", 1)[1])), False, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "Dropping":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.create_connection(self._address)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if b"Last-Event-ID: " in data:
                    self.resumed.append(int(data.partition(b"Last-Event-ID: ")[2].split()[0]))
                is_lost = b"event: pass" in data and not self._has_dropped
                target.sendall(data[: data.index(b"\n\n", data.index(b"event: pass")) + 2] if is_lost else data)
                if is_lost:
                    self._has_dropped = True
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Chat:
    """A webhook: a real HTTP server within `with`, which refuses the first post and keeps the others."""

    def __init__(self) -> None:
        self.posts, self.refused = [], []
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                (chat.posts if chat.refused else chat.refused).append((self.path, self.headers["Content-Type"], body))
                self.send_response(200 if chat.posts else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks/T1"

    def __enter__(self) -> "Chat":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def word(self) -> str:
        """The one that was posted."""
        assert self.posts == self.refused  # what is sent again is the same
        ((path, kind, body),) = self.posts
        assert (path, kind) == ("/hooks/T1", "application/json")
        assert json.loads(body).keys() == {"text"}
        return json.loads(body)["text"]


@contextmanager
def following(name: str, url: str, *arguments: str):
    """The process of an example, within `with`; it has ended well at the end."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
    environment = {**os.environ, "STREAMSVM_URL": url}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_follow_to_chat(client, service):
    """A job that runs, and is stopped after its follower has lost the connection."""
    job = client.submit("rows", **ENDLESS)
    with Chat() as chat, Dropping(service.url) as dropping:
        with following("follow_to_chat", dropping.url, job.id, chat.url) as process:
            assert [process.stdout.readline() for _ in range(2)] == ["pass 1\n", "pass 2\n"]
            job.stop()
        assert len(dropping.resumed) == 1
        gap = job.wait().view["result"]["certificate"]["relative_duality_gap"]
        (model,) = job.models
        expected = f"Job {job.id} on rows: stopped. Its relative gap is {gap:.1e}. Its model is {model.id}."
        assert chat.word() == expected


def test_follow_to_chat_a_job_that_has_ended(client, service):
    job = client.submit("rows", **ENDLESS).cancel()
    wait_for(lambda: job.refresh().state == "cancelled")
    with Chat() as chat:
        with following("follow_to_chat", service.url, job.id, chat.url):
            pass
        assert chat.word() == f"Job {job.id} on rows: cancelled."


class StandIn(ModuleType):
    """The part of MLflow's client that the example calls; what it is given stays in `run`."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.run, self.sklearn = SimpleNamespace(params={}, metrics={}, models={}), SimpleNamespace(log_model=self._log)

    def set_experiment(self, name: str) -> None:
        self.run.experiment = name

    def start_run(self, run_name: str) -> None:
        self.run.name = run_name

    def log_params(self, params: dict) -> None:
        self.run.params |= {name: str(value) for name, value in params.items()}

    def log_metrics(self, metrics: dict, step: int = 0) -> None:
        for name, value in metrics.items():
            self.run.metrics.setdefault(name, []).append((step, value))

    def _log(self, estimator: object, *, name: str, serialization_format: str, pip_requirements: list[str]) -> None:
        self.run.models[name] = estimator

    def end_run(self, status: str) -> None:
        self.run.status = status

    def found(self, name: str) -> SimpleNamespace:
        """The run of this name."""
        assert self.run.name == name and self.run.experiment == "streamsvm"
        return self.run


class Real:
    """MLflow with a server of its own."""

    def found(self, name: str) -> SimpleNamespace:
        """The run of this name, as the server has it."""
        import mlflow  # noqa: PLC0415

        (run,) = mlflow.search_runs(
            experiment_names=["streamsvm"], filter_string=f"run_name = '{name}'", output_format="list"
        )
        history = mlflow.MlflowClient().get_metric_history
        logged = [mlflow.get_logged_model(each.model_id) for each in run.outputs.model_outputs] if run.outputs else []
        return SimpleNamespace(
            params=run.data.params,
            metrics={
                key: [(each.step, each.value) for each in history(run.info.run_id, key)] for key in run.data.metrics
            },
            models={each.name: mlflow.sklearn.load_model(each.model_uri) for each in logged},
            status=run.info.status,
        )


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory):
    """The address of a server of MLflow, which keeps what it gets below a directory of its own."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", str(folder / "artifacts")]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # seven more processes, for evaluations
    process = subprocess.Popen([*command, *places], cwd=folder, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url))
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def tracked(request, tmp_path, monkeypatch):
    """Runs the example on a job, through this address of the service; returns the run that MLflow has then."""
    if find_spec("mlflow"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", request.getfixturevalue("mlflow_server"))
        taker = Real()
    else:
        monkeypatch.setitem(sys.modules, "mlflow", taker := StandIn())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(url: str, job: str) -> SimpleNamespace:
        monkeypatch.setenv("STREAMSVM_URL", url)
        monkeypatch.setattr("sys.argv", ["follow_to_mlflow.py", job])
        runpy.run_path(str(FOLDER / "follow_to_mlflow.py"))
        return taker.found(job)

    return run


@pytest.mark.filterwarnings("ignore")  # MLflow's
def test_follow_to_mlflow(client, service, tracked, tmp_path):
    """Each pass is there once, though the connection was lost after the first; the models are the service's."""
    job = client.submit("rows", C=[0.5, 2.0], pace="fixed", max_passes=4, tolerance=1e-300, cache_bytes=1 << 17).wait()
    with Dropping(service.url) as dropping:
        run = tracked(dropping.url, job.id)
    assert len(dropping.resumed) == 1 and run.status == "FINISHED"
    assert run.params["solver"] == "streamsvm" and run.params["C"] == "[0.5, 2.0]" and "relative_gap" not in run.params
    passes = job.history()
    assert len(passes) == 4
    for name, of in (("gap", lambda each: each["gap"]), ("lane_1/gap", lambda each: each["lanes"][1]["gap"])):
        expected = [(each["pass"], of(each)) for each in passes]
        assert run.metrics[name] == [each for each in expected if math.isfinite(each[1] or math.nan)]
    assert run.metrics["certificate/gap"] == [(0, job.view["result"]["certificate"]["gap"])]
    assert run.models.keys() == {model.id for model in job.models} and len(run.models) == 2
    for model in job.models:
        model.download(tmp_path / "model.npz")
        rows = np.random.default_rng(1).normal(size=(50, 400))
        there, here = run.models[model.id], streamsvm.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(there.decision_function(rows), here.decision_function(rows))


@pytest.mark.filterwarnings("ignore")
def test_follow_to_mlflow_a_job_that_runs_and_is_cancelled(client, service, tracked):
    job = client.submit("rows", **ENDLESS)
    service.wait_for_pass(job.id, 2)
    threading.Timer(0.2, job.cancel).start()
    run = tracked(service.url, job.id)
    assert (run.status, run.models) == ("KILLED", {})
    assert [step for step, _ in run.metrics["gap"]] == [each["pass"] for each in job.history()]


@pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed: make test-mlflow")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "format_",
    [
        {"serialization_format": "cloudpickle"},
        {
            "skops_trusted_types": [
                "streamsvm.classifier.StreamSVC",
                "streamsvm.prediction.Certificate",
                "streamsvm.storage.models.model_file.Model",
            ]
        },
    ],
    ids=["cloudpickle", "skops"],
)
def test_the_flavour_of_mlflow_for_scikit_learn_holds_an_estimator(mlflow_server, format_):
    import mlflow  # noqa: PLC0415

    mlflow.set_tracking_uri(mlflow_server)
    model = StreamSVC(probability="sigmoid", cv=3).fit(X, Y)
    uri = mlflow.sklearn.log_model(model, name="model", pip_requirements=["streamsvm"], **format_).model_uri
    assert mlflow.pyfunc.load_model(uri).predict(X).tolist() == model.predict(X).tolist()
    loaded = mlflow.sklearn.load_model(uri)
    assert isinstance(loaded, StreamSVC)
    for name in ("decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))
