"""The pages of the queue and of predictions of files, without a browser: order, reasons, and odd records."""

import re

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from tests.api.app import Service, some_model

EXPORTS = {"destination": "out.parquet", "model": "champ", "keep": [], "outputs": None, "options": {}, "format": None}


def rows_of(service: Service, url: str, part: str) -> list[str]:
    """The rows of the table in a part of a page, as text."""
    text = service.request("GET", url).text
    card = re.search(rf'id="{part}".*?</div>', text, re.DOTALL)[0]
    body = re.search(r"<tbody>(.*?)</tbody>", card, re.DOTALL)
    if body is None:
        return []
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in body[1].split("</tr>")[:-1]]


def submit(service: Service, dataset_id: str, **fields) -> str:
    return service.store.add_job(dataset_id, parse_spec({"dataset": "data", **fields}).model_dump())


def test_a_queue_without_anything(service):
    text = service.request("GET", "/queue").text
    assert "No job runs" in text and "No job waits" in text and "No prediction runs or waits" in text
    assert "0 of 2 at a time" in text


def test_the_queue_says_what_waits_for_what(service):
    dataset = service.add_dataset("data")
    running, large, urgent, paused = (submit(service, dataset, priority=p) for p in (0, 0, 7, -2))
    service.store.claim(running)
    service.store.explain_job(large, waits_for=[running])
    service.store.claim(paused)
    service.store.requeue(paused, reason="out_of_space")
    (shown,) = rows_of(service, "/queue", "running")
    assert shown.startswith(f"…{running[-8:]} data C = 1, hinge 0 ") and re.search(r" [\d.]+ [KM]iB ", shown)
    first, second, third = rows_of(service, "/queue", "waiting")
    assert first.startswith(f"1 …{urgent[-8:]} data C = 1, hinge 7 ") and "its turn" in first
    assert second.startswith(f"2 …{large[-8:]} data C = 1, hinge 0 ") and f"room beside …{running[-8:]}" in second
    assert third.startswith(f"3 …{paused[-8:]} data C = 1, hinge -2 ") and "room on the disk" in third
    service.store.claim(urgent)
    submit(service, dataset)
    assert "as many jobs run as may run at a time" in rows_of(service, "/queue", "waiting")[1]


def test_a_job_that_waits_for_its_data_comes_last(service):
    coming, dataset = service.store.add_dataset("coming"), service.add_dataset("data")
    job = submit(service, coming)
    service.store.claim(job)
    service.store.requeue(job, reason="process_died")
    other = submit(service, dataset)
    first, second = rows_of(service, "/queue", "waiting")
    assert other[-8:] in first and job[-8:] in second and "which is being read in" in second


def test_odd_records_do_not_hide_the_others(service):
    dataset = service.add_dataset("data")
    odd, good = submit(service, dataset), submit(service, dataset)
    with service.store._database.write() as connection:
        connection.execute("UPDATE jobs SET spec = '{', transitions = '[' WHERE id = ?", (odd,))
    shown = rows_of(service, "/queue", "waiting")
    assert len(shown) == 2 and good[-8:] in shown[1]


@pytest.fixture
def predicting(tmp_path):
    """A service with a prediction that has succeeded, one that failed, one that runs and one that waits."""
    folder = tmp_path / "out"
    folder.mkdir()
    service = Service(tmp_path / "data", export_dir=folder)
    model = service.add_model(service.add_dataset("data"), some_model())
    add = lambda **spec: service.store.add_prediction(model, {**EXPORTS, **spec})  # noqa: E731
    service.ids = [add(dataset="data"), add(**{"import": "part-*.csv"}), add(dataset="data"), add(dataset="data")]
    for prediction in service.ids[:3]:
        service.store.claim(prediction, "prediction")
    counts = {"rows": 1500, "bytes": 100, "total_bytes": 100}
    service.store.finish(service.ids[0], "succeeded", result={**counts, "unknown_features": 3}, kind="prediction")
    failure = {"code": "column_missing", "message": "there is no column <b>", "hint": "Give it."}
    service.store.finish(service.ids[1], "failed", failure=failure, kind="prediction")
    directory = service.settings.predictions / service.ids[2]
    directory.mkdir(parents=True)
    (directory / "progress.json").write_text('{"rows": 12, "bytes": 250, "total_bytes": 1000}')
    (directory / "log").write_text("what the process said")
    return service


def test_predictions_are_listed_the_newest_first(predicting):
    shown = rows_of(predicting, "/predictions", "prediction-list")
    assert [row.split()[0][1:] for row in shown] == [each[-8:] for each in reversed(predicting.ids)]
    assert "queued champ dataset data out.parquet \N{EN DASH} \N{EN DASH}" in shown[0]
    assert "running champ dataset data out.parquet 12 25 %" in shown[1]
    assert "failed champ part-*.csv" in shown[2] and "succeeded" in shown[3] and "1,500 100 %" in shown[3]
    text = predicting.request("GET", "/predictions").text
    assert 'id="predict"' in text and 'name="import"' not in text  # there is no import directory
    assert len(rows_of(predicting, f"/predictions?before={predicting.ids[1]}", "prediction-list")) == 1


def test_one_prediction(predicting):
    text = [predicting.request("GET", f"/predictions/{each}").text for each in predicting.ids]
    assert "1,500" in text[0] and 'data-method="DELETE"' in text[0] and "Values of unknown features" in text[0]
    assert "there is no column &lt;b&gt;" in text[1] and "Give it." in text[1]
    assert "25 %" in text[2] and "what the process said" in text[2] and "/cancel" in text[2]
    assert 'data-live="yes"' in text[2] and 'data-live="yes"' not in text[0]
    assert 'href="/queue"' in text[3] and "waits for its turn" in text[3]
    assert predicting.request("GET", "/predictions/prd_0").status_code == 404


def test_the_queue_has_predictions_the_running_one_first(predicting):
    shown = rows_of(predicting, "/queue", "to-predict")
    assert [row.split()[1] for row in shown] == ["running", "queued"]


def test_a_service_that_writes_no_files_says_so(service):
    text = service.request("GET", "/predictions").text
    assert "STREAMSVM_EXPORT_DIR" in text and 'id="predict"' not in text
