"""Files of an object store by commands and from Python; connections that break cost nothing but time."""

import io
import json

import httpx
import numpy as np
import pytest
from pyarrow import parquet

from streamsvm import StreamSVC
from streamsvm.errors import InvalidInput
from streamsvm.service.models.exports import MODEL_FORMATS
from tests import s3 as stores
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import Processes, wait_for

QUICK = ("--pace", "fixed", "--max-passes", "2")


@pytest.fixture
def filled(s3, text, processes):
    """The problem in two files; commands find it."""
    middle = text.index(b"\n", len(text) // 2) + 1
    s3.put("bucket/day=1/part-0.svm", text[:middle])
    s3.put("bucket/day=2/part-0.svm", text[middle:])
    processes.environment |= s3.environment()
    return s3


URL = "s3://bucket/day=*/part-*.svm"


def test_train_on_a_pattern_as_on_the_file(filled, processes: Processes, tmp_path, text):
    (tmp_path / "train.svm").write_bytes(text)
    for source, name in ((tmp_path / "train.svm", "file.npz"), (URL, "url.npz"), (f"{tmp_path}/tr*.svm", "path.npz")):
        done = processes.run("train", source, *QUICK, "-o", tmp_path / name, text=True)
        assert done.returncode == 4, done.stderr
        assert f"reading {source}" in done.stderr
    w = [weights((tmp_path / name).read_bytes()) for name in ("file.npz", "url.npz", "path.npz")]
    assert w[0].tolist() == w[1].tolist() == w[2].tolist()
    assert processes.run("train", URL, *QUICK, cwd=tmp_path).returncode == 4
    assert (tmp_path / "part-.svm.model").exists()


def test_what_is_denied_is_said_without_keys(filled, processes: Processes, tmp_path):
    key, secret = filled.let_in_one()
    processes.environment |= filled.environment(key=key, secret=secret)
    assert processes.run("train", URL, *QUICK, "-o", tmp_path / "m").returncode == 4
    processes.environment |= filled.environment(key=key, secret="hunter2")
    done = processes.run("train", URL, *QUICK, "-o", tmp_path / "m", text=True)
    assert done.returncode == 3 and "[source_denied]" in done.stderr
    assert key not in done.stderr and "hunter2" not in done.stderr


def test_connections_that_break_are_made_again(filled, processes: Processes, tmp_path, text):
    with stores.breaking(filled, after_bytes=1000, times=4) as seen:
        processes.environment["AWS_ENDPOINT_URL"] = seen[0]
        done = processes.run("train", URL, *QUICK, "-o", tmp_path / "m.npz", text=True)
        assert done.returncode == 4, done.stderr
        assert len(seen) > 4
    with (tmp_path / "m.npz").open("rb") as file:
        assert MODEL_FORMATS["npz"].read(file).w.any()


def test_predict_from_a_url(filled, processes: Processes, tmp_path, text):
    (tmp_path / "test.svm").write_bytes(text)
    filled.put("bucket/test.svm", text)
    assert processes.run("train", URL, *QUICK, "-o", tmp_path / "m").returncode == 4
    here, there = (
        processes.run("predict", tmp_path / "m", file) for file in (tmp_path / "test.svm", "s3://bucket/test.svm")
    )
    assert here.returncode == there.returncode == 0 and here.stdout == there.stdout != b""
    done = processes.run("predict", tmp_path / "m", URL, text=True)
    assert done.returncode == 3 and "[several_files]" in done.stderr


def test_predict_a_pattern_into_a_store(filled, processes: Processes, tmp_path, text):
    assert processes.run("train", URL, *QUICK, "-o", tmp_path / "m").returncode == 4
    (tmp_path / "test.svm").write_bytes(text)
    for source, out in ((tmp_path / "test.svm", tmp_path / "out.parquet"), (URL, "s3://bucket/out.parquet")):
        done = processes.run("predict", tmp_path / "m", source, "-o", out, text=True)
        assert done.returncode == 0 and "3,000 rows predicted" in done.stderr, done.stderr
    there = io.BytesIO(filled.get("bucket/out.parquet"))
    assert parquet.read_table(there) == parquet.read_table(tmp_path / "out.parquet")
    done = processes.run("predict", tmp_path / "m", URL, "-o", "s3://nobucket/out.parquet", text=True)
    assert "[destination_unwritable]" in done.stderr and "Traceback" not in done.stderr


def test_a_service_predicts_from_a_store_into_it(filled, new_service, tmp_path, text):
    service = new_service(import_sources="s3://bucket/", export_destinations="s3://bucket/out")
    service.processes.environment |= filled.environment()
    service.start().upload("data", text)
    job = service.wait_until_ended(service.submit(dataset="data", max_passes=2, model_name="mine"))
    run = service.processes.run
    done = run("predict", "mine", URL, "-o", "s3://bucket/out/p.parquet", "--url", service.url, text=True)
    assert done.returncode == 0 and "3,000 rows predicted" in done.stderr and job["model_id"] in done.stderr, (
        done.stderr
    )
    there = parquet.read_table(io.BytesIO(filled.get("bucket/out/p.parquet")))
    rows = {"content": text, "headers": {"Content-Type": "text/libsvm"}, "timeout": 60}
    answer = httpx.post(f"{service.url}/v1/models/mine/predict", **rows).json()
    expected = [each["decision_value"] for each in answer["predictions"]]
    assert there["decision_value"].to_pylist() == expected
    done = run("predict", "mine", URL, "-o", "s3://bucket/p.parquet", "--url", service.url, text=True)
    assert done.returncode and "export_forbidden" in done.stderr


def test_a_service_reads_what_a_command_names(filled, new_service, tmp_path):
    service = new_service(import_sources="s3://bucket/")
    service.processes.environment |= filled.environment()
    service.start()
    run = service.processes.run
    done = run("data", "add", "mine", URL, "--url", service.url, text=True)
    assert "mine: ingesting" in done.stdout, done.stderr
    seen = wait_for(lambda: (found := service.get("/v1/datasets/mine"))["state"] == "ready" and found)
    assert seen["rows"] == 3000
    assert "import_forbidden" in run("data", "add", "o", "s3://other/a", "--url", service.url, text=True).stderr
    done = run("train", URL, *QUICK, "-o", tmp_path / "m", "--url", service.url, text=True)
    assert done.returncode == 4 and f"importing {URL} as part" in done.stderr, done.stderr
    names = [each["name"] for each in httpx.get(f"{service.url}/v1/datasets").json()["datasets"]]
    assert sorted(names) == ["mine", "part"]
    assert json.loads(run("data", "ls", "--json", "--url", service.url).stdout)


def test_fit_takes_urls(filled, tmp_path, text):
    (tmp_path / "train.svm").write_bytes(text)
    given = {"max_passes": 2, "pace": "fixed", "tolerance": 100.0}
    here, there, listed = (
        StreamSVC(**given).fit(source)
        for source in (
            f"{tmp_path}/tr*.svm",
            URL,
            ["s3://bucket/day=1/part-0.svm", "s3://bucket/day=2/part-0.svm"],
        )
    )
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.coef_, listed.coef_)
    with pytest.raises(InvalidInput, match="source_not_found"):
        StreamSVC().fit("s3://bucket/none")
