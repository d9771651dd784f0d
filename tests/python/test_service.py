"""A service from Python; and the same model to the byte from Python, from the command line and by REST."""

import http.server
import json
import threading
import zipfile

import numpy as np
import pyarrow
import pytest

import streamsvm
from streamsvm import Client, StreamSVC
from streamsvm import workspace as workspace_module
from streamsvm.errors import as_arguments
from streamsvm.reader.errors import InputError
from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import Service, running
from tests.refusals import refused

pandas = pytest.importorskip("pandas")

FIELDS = {"C": 0.5, "pace": "fixed", "max_passes": 3, "tolerance": 1e-12, "cache_bytes": 1 << 17, "seed": 4}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Text several times the size of the cache."""
    path = tmp_path_factory.mktemp("text") / "rows.svm"
    path.write_bytes(libsvm_text(*random_problem(3000, 400)))
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(Service(tmp_path_factory.mktemp("service"))) as service:
        yield service


@pytest.fixture(scope="module")
def client(service, file):
    """With the text as `rows`."""
    client = Client(service.url)
    client.add_dataset("rows", file)
    return client


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::streamsvm.SlowerTraining")
def test_the_same_model_from_everywhere(client, service, file, tmp_path, monkeypatch):
    names = ("here.model", "apart.model", "line.model", "service.model")
    here, apart, line, there = (tmp_path / name for name in names)
    StreamSVC(bias=1.0, **FIELDS).fit(file).save(here)
    monkeypatch.setattr(workspace_module, "SMALL_BYTES", 0)
    StreamSVC(bias=1.0, **FIELDS).fit(file).save(apart)
    words = [f"--{name.replace('_', '-')}" for name in FIELDS]
    options = [word for pair in zip(words, FIELDS.values(), strict=True) for word in pair]
    options = ["-C" if word == "--C" else "--cache" if word == "--cache-bytes" else word for word in options]
    assert service.processes.run("train", file, *options, "--bias", 1, "-o", line).returncode == 4
    client.submit("rows", bias=1.0, **FIELDS).wait().models[0].download(there)
    assert len({path.read_bytes() for path in (here, apart, line, there)}) == 1
    assert len(here.read_bytes().splitlines()) > 400


def test_names_of_models(client, service, capsys):
    job = client.submit("rows", tolerance=0.1, model_name="churn").wait()
    (model,) = job.models
    assert model.register("churn") == 1  # by the job
    registered = client.registered_model("churn").move("champion", 1)
    assert registered.version("champion").view["id"] == registered.version(1).view["id"] == model.id
    capsys.readouterr()
    assert main(["model", "threshold", model.id, "0.25", "--url", service.url]) == 0
    assert client.model(capsys.readouterr().out.strip()).view["threshold"] == 0.25
    assert main(["model", "register", model.id, "other", "--url", service.url]) == 0
    assert main(["model", "alias", "other", "old", "1", "--url", service.url]) == 0
    assert main(["model", "names", "--url", service.url]) == 0
    assert "champion -> 1" in (said := capsys.readouterr().out) and "other:1" in said and "old -> 1" in said
    assert main(["model", "show", "other@old", "--url", service.url]) == 0
    assert main(["model", "alias", "other", "old", "--delete", "--url", service.url]) == 0
    assert client.registered_models()[1].view["aliases"] == registered.remove("champion").view["aliases"] == []
    model.delete()


def test_datasets_jobs_and_models(client, file, tmp_path):
    assert [dataset.id for dataset in client.datasets()] == ["rows"]
    assert client.dataset("rows").wait().view["rows"] == 3000
    job = client.submit("rows", tolerance=0.1)
    kinds = [kind for kind, _ in job.watch()]
    assert kinds[-1] == "end" and {"state", "pass"} <= set(kinds)
    assert job.state == "succeeded" and len(job.history()) == job.view["result"]["passes"]
    (model,) = job.models
    model.download(tmp_path / "model.npz")
    loaded = streamsvm.load(tmp_path / "model.npz")
    assert loaded.certificate_.gap <= 0.1 and loaded.n_features_in_ == 400
    assert client.model(model.id).view["job_id"] == job.id
    assert model.id in [each.id for each in client.models()]
    assert job.id in [each.id for each in client.jobs("succeeded")]
    model.delete()
    assert model.id not in [each.id for each in client.models()]


def test_a_job_is_stopped_resumed_and_cancelled(client):
    job = client.submit("rows", tolerance=None, max_passes=500_000, pace="fixed", cache_bytes=1 << 17)
    for kind, _ in job.watch():
        if kind == "pass":
            job.stop()
            break
    assert job.wait().state == "stopped"
    further = job.resume(max_passes=1_000_000)
    assert further.id != job.id
    further.cancel()
    further.wait()
    assert further.state == "cancelled" and not further.models
    further.delete()


def test_what_the_service_refuses_is_raised(client, tmp_path):
    with refused(ServiceError, "C_range"):
        client.submit("rows", C=-1)
    (tmp_path / "bad.svm").write_text("1 1:1\n1 x:1\n")
    with pytest.raises(InputError) as fault:
        client.add_dataset("bad", tmp_path / "bad.svm")
    assert fault.value.line == 2


def test_hints_name_arguments_and_are_shown(client, tmp_path):
    with pytest.raises(ServiceError) as refused:
        client.submit("rows", eviction="paper")
    assert refused.value.hint == 'The rule of the paper is a solver of its own: solver="streamsvm_paper".'
    assert refused.value.__notes__ == [f"{refused.value.hint} [unknown_field]"]
    (tmp_path / "words.csv").write_text("target,a\nyes,1\nno,2\nno,red\n")
    with pytest.raises(InputError) as fault:
        client.add_dataset("words", tmp_path / "words.csv")
    assert 'categorical="all"' in fault.value.hint and "=all" not in fault.value.hint
    assert fault.value.__notes__ == [f"{fault.value.hint} [{fault.value.code}]"]
    with pytest.raises(ServiceError) as gone:
        Client("http://localhost:1", retries=0).datasets()
    assert "Client(url)" in gone.value.hint and "--url" not in gone.value.hint


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ('Choose "solver": "dcd", or "bias": null.', 'Choose solver="dcd", or bias=None.'),
        ('with "features": ["scale", {"pairs": {"bits": 18}}]', 'with features=["scale", {"pairs": {"bits": 18}}]'),
        ("label_type=string, label_column=-1", 'label_type="string", label_column=-1'),
        ('Send {"rows": [{"3": 1.5}]}.', 'Send {"rows": [{"3": 1.5}]}.'),
    ],
)
def test_fields_are_arguments(hint, expected):
    assert as_arguments(hint) == expected


class Answers(http.server.BaseHTTPRequestHandler):
    """Hangs up on requests until it has had enough of them."""

    hang_up = 2
    seen: list

    def do_GET(self):
        self.seen.append((self.path, self.headers["Authorization"]))
        if len(self.seen) > self.hang_up:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"datasets": []}).encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def unsteady():
    """(url, what it has seen)"""
    seen: list = []
    kind = type("Unsteady", (Answers,), {"seen": seen})
    with http.server.HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def test_what_changes_nothing_is_asked_again(unsteady):
    url, seen = unsteady
    assert Client(url, "secret").datasets() == []
    assert seen == [("/v1/datasets", "Bearer secret")] * 3
    seen.clear()
    with pytest.raises(ServiceError) as caught:
        Client(url, retries=1).datasets()
    assert caught.value.code == "no_service" and len(seen) == 2


def test_what_changes_something_is_asked_once(unsteady):
    url, seen = unsteady
    with pytest.raises(ServiceError):
        Client(url).submit("rows")
    assert len(seen) == 1


ROWS = {"n": [1.5, -2.0, None, 0.5], "w": ["red", "blue, dark", "red", "new"], "t": [True, False, True, True]}


@pytest.fixture(scope="module")
def of_table(client, tmp_path_factory):
    """A model of a table with numbers, words, truths and gaps; and the file that it was trained on."""
    path = tmp_path_factory.mktemp("table") / "t.csv"
    frame = pandas.DataFrame(ROWS).iloc[np.arange(80) % 3]
    frame.assign(target=np.where(frame["w"] == "red", "yes", "no")).to_csv(path, index=False)
    client.add_dataset("table", path, label_column="target", categorical="w,t", missing="zero")
    return client.submit("table").wait().models[0], path


class OnlyAStream:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES = {
    "pandas": pyarrow.Table.to_pandas,
    "polars": lambda table: pytest.importorskip("polars").from_arrow(table),
    "lazy": lambda table: pytest.importorskip("polars").from_arrow(table).lazy(),
    "arrow": lambda table: table,
    "reader": pyarrow.Table.to_reader,
    "duckdb": lambda table: pytest.importorskip("duckdb").from_arrow(table),
    "stream": OnlyAStream,
}
ROWWISE = {
    "another order": lambda table: table.to_pandas()[["t", "n", "w"]],
    "objects": pyarrow.Table.to_pylist,
    "array": lambda table: np.array([[*row.values()] for row in table.to_pylist()], object),
}


@pytest.mark.parametrize("form", FRAMES | ROWWISE)
def test_a_service_predicts_frames(of_table, form):
    model, _ = of_table
    found = model.predict((FRAMES | ROWWISE)[form](pyarrow.table(ROWS)))
    assert found.dtype.kind == "U" and found.tolist()[:3] == ["yes", "no", "yes"] and len(found) == 4


def test_a_service_predicts_files_and_matrices(client, of_table, file):
    model, path = of_table
    expected = pandas.read_csv(path)["target"].tolist()
    assert model.predict(path).tolist() == model.predict(str(path)).tolist() == expected
    pandas.read_csv(path).to_parquet(path.with_suffix(".parquet"))
    assert model.predict(path.with_suffix(".parquet")).tolist() == expected
    with path.open("rb") as stream:
        assert model.predict(stream).tolist() == expected
    with pytest.warns(UserWarning, match="left out: other"):
        model.predict(pandas.DataFrame({**ROWS, "other": 1}))
    numbered = client.submit("rows", tolerance=0.1).wait().models[0]
    X, _ = random_problem(3000, 400)
    labels = numbered.predict(file)
    assert labels.dtype == np.float64 and numbered.predict(X).tolist() == labels.tolist()
    assert numbered.predict(X[:50].toarray()).tolist() == labels[:50].tolist()


@pytest.mark.parametrize("form", FRAMES)
def test_a_service_takes_frames_as_datasets(client, form):
    table = pyarrow.table({**ROWS, "target": ["no", "yes", "no", "no"]})
    dataset = client.add_dataset(f"frame_{form}", FRAMES[form](table), categorical="w", missing="zero")
    assert (dataset.view["input"]["format"], dataset.view["label_counts"]) == ("arrow", {"no": 3, "yes": 1})
    assert dataset.view["input"]["category_counts"] == {"w": 3}


def test_a_frame_is_sent_batch_by_batch(client):
    schema, sent = pyarrow.schema({"a": pyarrow.float64(), "label": pyarrow.int64()}), []

    def batches():
        for number in range(64):
            sent.append(pyarrow.total_allocated_bytes())
            values = np.arange(50_000.0) + number
            yield pyarrow.record_batch([values, np.arange(50_000) % 2], schema=schema)

    dataset = client.add_dataset("batches", pyarrow.RecordBatchReader.from_batches(schema, batches()))
    assert dataset.view["rows"] == 64 * 50_000 and max(sent) < sent[0] + (8 << 20)
    with refused(InputError, "column_type"):
        client.add_dataset("words", pyarrow.table({"a": [[1], [2]], "label": [1, 2]}))


def test_a_service_says_what_is_wrong_with_rows(of_table, tmp_path):
    model, _ = of_table
    with pytest.raises(InputError) as fault:
        model.predict(pandas.DataFrame({**ROWS, "n": [1, 2, "x", 4]}))
    assert fault.value.line == 4
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as book:
        book.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(InputError, match="workbook"):
        model.predict(tmp_path / "t.xlsx")
    with refused(ServiceError, "wrong_type"):
        model.predict([1.0, 2.0])
