"""Files of an object store by commands, in a service and from Python."""

import io
import json

import httpx
import numpy as np
import pytest
from pyarrow import parquet

from streamsvm import StreamSVC
from streamsvm.errors import InvalidInput
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import wait_for

QUICK = ("--pace", "fixed", "--max-passes", "2")


@pytest.fixture
def filled(s3, text):
    """The problem in two files; commands find it."""
    middle = text.index(b"\n", len(text) // 2) + 1
    s3.put("bucket/day=1/part-0.svm", text[:middle])
    s3.put("bucket/day=2/part-0.svm", text[middle:])
    return s3


URL = "s3://bucket/day=*/part-*.svm"


def test_train_and_predict_as_on_the_file(filled, run_here, tmp_path, text, monkeypatch):
    file, model = tmp_path / "train.svm", tmp_path / "url.npz"
    file.write_bytes(text)
    filled.put("bucket/test.svm", text)
    for source, name in ((file, "file.npz"), (URL, "url.npz")):
        done = run_here("train", source, *QUICK, "-o", tmp_path / name)
        assert done.returncode == 4, done.stderr
        assert f"reading {source}" in done.stderr
    assert weights(model.read_bytes()).tolist() == weights((tmp_path / "file.npz").read_bytes()).tolist()
    monkeypatch.chdir(tmp_path)
    assert run_here("train", URL, *QUICK).returncode == 4
    assert (tmp_path / "part-.svm.model").exists()
    here, there = (run_here("predict", model, source) for source in (file, "s3://bucket/test.svm"))
    assert here.returncode == there.returncode == 0 and here.stdout == there.stdout != ""
    done = run_here("predict", model, URL)
    assert done.returncode == 3 and "[several_files]" in done.stderr
    for source, out in ((file, tmp_path / "out.parquet"), (URL, "s3://bucket/out.parquet")):
        done = run_here("predict", model, source, "-o", out)
        assert done.returncode == 0 and "3,000 rows predicted" in done.stderr, done.stderr
    there = io.BytesIO(filled.get("bucket/out.parquet"))
    assert parquet.read_table(there) == parquet.read_table(tmp_path / "out.parquet")
    done = run_here("predict", model, URL, "-o", "s3://nobucket/out.parquet")
    assert "[destination_unwritable]" in done.stderr and "Traceback" not in done.stderr


def test_a_service_reads_from_a_store_and_predicts_into_it(filled, new_service, run_here, tmp_path, text):
    service = new_service(import_sources="s3://bucket/", export_destinations="s3://bucket/out")
    service.processes.environment |= filled.environment()
    service.start()

    def run(*words):
        return run_here(*words, "--url", service.url)

    done = run("data", "add", "mine", URL)
    assert "mine: ingesting" in done.stdout, done.stderr
    seen = wait_for(lambda: (found := service.get("/v1/datasets/mine"))["state"] == "ready" and found)
    assert seen["rows"] == 3000
    assert "import_forbidden" in run("data", "add", "o", "s3://other/a").stderr
    done = run("train", URL, *QUICK, "-o", tmp_path / "m")
    assert done.returncode == 4 and f"importing {URL} as part" in done.stderr, done.stderr
    names = [each["name"] for each in httpx.get(f"{service.url}/v1/datasets").json()["datasets"]]
    assert sorted(names) == ["mine", "part"]
    assert json.loads(run("data", "ls", "--json").stdout)

    job = service.wait_until_ended(service.submit(dataset="mine", max_passes=2, model_name="mine"))
    done = run("predict", "mine", URL, "-o", "s3://bucket/out/p.parquet")
    assert done.returncode == 0 and "3,000 rows predicted" in done.stderr and job["model_id"] in done.stderr, (
        done.stderr
    )
    there = parquet.read_table(io.BytesIO(filled.get("bucket/out/p.parquet")))
    rows = {"content": text, "headers": {"Content-Type": "text/libsvm"}, "timeout": 60}
    answer = httpx.post(f"{service.url}/v1/models/mine/predict", **rows).json()
    expected = [each["decision_value"] for each in answer["predictions"]]
    assert there["decision_value"].to_pylist() == expected
    done = run("predict", "mine", URL, "-o", "s3://bucket/p.parquet")
    assert done.returncode and "export_forbidden" in done.stderr


def test_fit_takes_urls(filled, tmp_path, text):
    (tmp_path / "train.svm").write_bytes(text)
    given = {"max_passes": 2, "pace": "fixed", "tolerance": 100.0}
    listed = ["s3://bucket/day=1/part-0.svm", "s3://bucket/day=2/part-0.svm"]
    here, there = (StreamSVC(**given).fit(source) for source in (f"{tmp_path}/tr*.svm", listed))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    with pytest.raises(InvalidInput, match="source_not_found"):
        StreamSVC().fit("s3://bucket/none")
