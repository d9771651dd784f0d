"""/metrics, as Prometheus reads it."""

import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamsvm.service.processes.health import lock, unlock
from streamsvm.storage.run.state import RUN_FILE, create_state
from tests.api.app import ONE_LANE, Service, some_model

FORBIDDEN_UNITS = ("kib", "mib", "gib", "kilobytes", "megabytes", "milliseconds", "ms", "minutes")


def scrape(service: Service) -> dict:
    """Map names to metrics with Prometheus's own parser."""
    answer = service.request("GET", "/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(metrics: dict, family: str, sample: str | None = None, **labels: str) -> float:
    (found,) = [
        item.value for item in metrics[family].samples if item.name == (sample or family) and item.labels == labels
    ]
    return found


@pytest.fixture
def running(service):
    """A service with a running job that has finished three passes; its id."""
    service.add_dataset("data")
    job_id = service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"]
    service.store.claim()
    run = service.settings.jobs / job_id / "run"
    run.mkdir(parents=True)
    (run / RUN_FILE).write_text(json.dumps({"lane": ONE_LANE, "reader": {"blocks": None}}))
    control = create_state(run, 60, 41).control
    figures = {
        "pass": 4, "finished_passes": 3, "M_plus": 0.5, "M_minus": -0.25, "dual_objective": 6.0, "primal_bound": 8.0,
        "rows_streamed": 240, "updates": 480, "resident_bytes": 4096, "resident_rows": 30, "read_bytes": 9000,
        "reader_heartbeat": time.monotonic() - 100, "trainer_heartbeat": time.monotonic() - 50,
    }  # fmt: skip
    for name, figure in figures.items():
        control[name] = figure
    return service, job_id


def test_figures_of_a_running_job(running):
    service, job = running
    metrics = scrape(service)
    expected = {
        "gap": 0.75, "dual_objective": 6.0, "primal_bound": 8.0, "relative_gap_bound": 0.25, "pass": 4,
        "resident_bytes": 4096, "resident_rows": 30,
    }  # fmt: skip
    for name, figure in expected.items():
        assert value(metrics, f"streamsvm_job_{name}", job=job) == figure
    for name, figure in {"rows_streamed": 240, "updates": 480, "read_bytes": 9000}.items():
        assert value(metrics, f"streamsvm_job_{name}", f"streamsvm_job_{name}_total", job=job) == figure
    assert 50 <= value(metrics, "streamsvm_job_silence_seconds", job=job) < 100


def test_a_figure_that_is_not_there_yet_is_left_out(running):
    service, job = running
    create_state(service.settings.jobs / job / "run", 60, 41)
    metrics = scrape(service)
    assert metrics["streamsvm_job_gap"].samples == metrics["streamsvm_job_silence_seconds"].samples == []
    assert value(metrics, "streamsvm_job_rows_streamed", "streamsvm_job_rows_streamed_total", job=job) == 0


def test_jobs_and_datasets_by_state(running):
    service, _ = running
    service.request("POST", "/v1/jobs", json={"dataset": "data"})
    service.store.add_dataset("arriving")
    metrics = scrape(service)
    jobs = {sample.labels["state"]: sample.value for sample in metrics["streamsvm_jobs"].samples}
    assert jobs == {"queued": 1, "running": 1, "succeeded": 0, "stopped": 0, "failed": 0, "cancelled": 0}
    datasets = {sample.labels["state"]: sample.value for sample in metrics["streamsvm_datasets"].samples}
    assert datasets == {"ready": 1, "ingesting": 1, "changing": 0, "failed": 0}


def test_whether_there_is_a_worker(service):
    assert value(scrape(service), "streamsvm_worker_up") == 0
    held = lock(service.settings.data_dir, "worker")
    assert value(scrape(service), "streamsvm_worker_up") == 1
    unlock(held)
    assert value(scrape(service), "streamsvm_worker_up") == 0


def test_requests_by_route_and_status(service):
    for name in ("a", "b", "c"):
        service.request("GET", f"/v1/datasets/{name}")
    service.request("GET", "/v1/datasets")
    service.request("GET", "/no/such/route")
    service.request("SPAM", "/v1/datasets")
    metrics = scrape(service)

    def count(method: str, route: str, status: str) -> float:
        labels = {"method": method, "route": route, "status": status}
        return value(metrics, "streamsvm_http_requests", "streamsvm_http_requests_total", **labels)

    assert count("GET", "/v1/datasets/{name}", "404") == 3
    assert count("GET", "/v1/datasets", "200") == 1
    assert count("GET", "", "404") == 1
    assert count("other", "/v1/datasets", "405") == 1
    seconds, labels = "streamsvm_http_request_duration_seconds", {"method": "GET", "route": "/v1/datasets/{name}"}
    assert metrics[seconds].type == "histogram"
    assert value(metrics, seconds, f"{seconds}_count", status="404", **labels) == 3
    assert 0 < value(metrics, seconds, f"{seconds}_sum", status="404", **labels) < 60
    buckets = [value(metrics, seconds, f"{seconds}_bucket", status="404", le=le, **labels) for le in ("60.0", "+Inf")]
    assert buckets == [3, 3]


def test_predictions(service):
    model = f"models/{service.add_model(service.add_dataset('data'), some_model())}"
    assert service.request("POST", f"/v1/{model}/predict", content=b"1 1:1\n1 2:1\n").status_code == 200
    assert service.request("POST", f"/v1/{model}/predict", content=b"1 0:1\n").status_code == 422
    metrics, seconds, rows = scrape(service), "streamsvm_prediction_duration_seconds", "streamsvm_predicted_rows"
    assert value(metrics, rows, f"{rows}_total") == 2
    assert value(metrics, seconds, f"{seconds}_count") == 1


def test_names_have_the_prefix_base_units_and_total_on_counters_only(running):
    service, _ = running
    for family in scrape(service).values():
        assert family.name.startswith("streamsvm_") and family.documentation
        assert not set(family.name.split("_")) & set(FORBIDDEN_UNITS)
        assert not family.name.endswith("_total")
        is_counter = {sample.name.endswith("_total") for sample in family.samples} == {True}
        assert is_counter == (family.type == "counter" and bool(family.samples))


def test_predictions_of_files(tmp_path):
    service = Service(tmp_path)
    model = service.add_model(service.add_dataset("data"), some_model())
    first, _ = (service.store.add_prediction(model, {"destination": "out.csv"}) for _ in range(2))
    service.store.claim(first, "prediction")
    directory = service.settings.predictions / first
    directory.mkdir(parents=True)
    (directory / "progress.json").write_text('{"rows": 12, "bytes": 340, "total_bytes": 1000}')
    metrics = scrape(service)
    for state, count in {"queued": 1, "running": 1, "failed": 0}.items():
        assert value(metrics, "streamsvm_predictions", state=state) == count
    for name, figure in {"rows": 12, "bytes": 340}.items():
        sample = f"streamsvm_prediction_{name}_total"
        assert value(metrics, f"streamsvm_prediction_{name}", sample, prediction=first) == figure
