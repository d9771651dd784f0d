"""Routes that say how the service is.

/v1/info: version, limits and abilities. /v2/health: whether it runs, and is ready, as probes ask. /metrics for
Prometheus: counts requests, and reads records and control pages at every scrape.
"""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamsvm.api.answers import Responses, answers
from streamsvm.api.context import Context
from streamsvm.reader.parsers import READERS
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.progress.progress import job_view
from streamsvm.service.jobs.progress.states import PREDICTION_STATES, TRANSITIONS
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.predictions.spec import prediction_view
from streamsvm.service.processes.health import worker_is_there
from streamsvm.service.records.store import DATASET_STATES, Store
from streamsvm.service.settings import Settings
from streamsvm.storage.run.figures import FIGURES
from streamsvm.storage.run.state import read_control
from streamsvm.trainer.solvers import SOLVERS

router = APIRouter(tags=["service"])

_log = logging.getLogger("streamsvm.api")
_SEE_LOG = "The service's log says more."
# Up to an hour, because uploads and long polls are requests, too.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_METHODS = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"}
_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
# Figures of the running prediction of files, and their meaning.
_OF_PREDICTIONS = {
    "rows": "Rows that the running prediction of files has predicted",
    "bytes": "Bytes of the input that they were stored in",
}
_MACHINE_GAUGES = {"in_round": "1 if the machine had part in the last round", "seconds": "That its last round took"}
_MACHINE_COUNTERS = {"sent_bytes": "Sent to the coordinator", "waited_seconds": "That it has waited for others"}


@router.get("/v2/health/live", operation_id="serverLive", responses=answers("Live"))
async def server_live() -> dict[str, bool]:
    """Answer, which shows that the process runs."""
    return {"live": True}


@router.get("/v2/health/ready", operation_id="serverReady", responses=answers("Ready"))
def server_ready(context: Context, request: Request) -> dict[str, bool]:
    """Check that the records can be read, and that imports and jobs are being worked on; else `unavailable`."""
    try:
        request.app.state.soundness.check()
    except (sqlite3.Error, ServiceError) as error:
        _log.error("the records cannot be read: %s", error)
        what = ("the records cannot be read", _SEE_LOG)
        if isinstance(error, ServiceError):
            what = (f"the records cannot be read: {error.code}", error.hint)
        raise ServiceError("unavailable", *what) from None
    if missing := context.datasets.missing_threads():
        raise ServiceError("unavailable", f"there is no thread for {' and '.join(missing)}", _SEE_LOG)
    if context.keeper is not None and (trouble := context.keeper.trouble):
        raise ServiceError("unavailable", trouble, "It is tried again all the time; the service's log says more.")
    return {"ready": True}


@router.get("/v1/info", operation_id="getInfo", responses=answers("Info"))
async def get_info(context: Context, request: Request) -> dict[str, Any]:
    """Version, limits, features, solvers and formats."""
    settings = {name: value for name, value in asdict(context.settings).items() if value is not None}
    return {
        "version": version("streamsvm"),
        "limits": {name: settings[name] for name in settings if name.startswith("max_")},
        "features": {
            "tokens": not await request.app.state.access.is_open(),
            "onnx": find_spec("onnx") is not None,
        },
        "solvers": list(SOLVERS),
        "losses": list(FIELDS["loss"].choices),
        "formats": {"datasets": list(READERS), "models": list(MODEL_FORMATS)},
    }


# Otherwise each counter has a second series with its time of creation.
disable_created_metrics()


class Metrics:
    """The metrics of an app, in a Prometheus `registry` that only they use."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "streamsvm_http_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = self._histogram(
            "streamsvm_http_request_duration_seconds", "From head to end", "method", "route", "status"
        )
        self._rows = Counter("streamsvm_predicted_rows", "Rows predicted", registry=self.registry)
        self._prediction_seconds = self._histogram(
            "streamsvm_prediction_duration_seconds", "From head until all predictions are known"
        )
        self.registry.register(_MetricsCollector(settings, store))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the path of its route, `seconds` the time from head to end."""
        # Clients may invent methods, each of which would be a series.
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route, status).observe(seconds)

    def observe_prediction(self, rows: int, seconds: float) -> None:
        """Count the predicted rows of a request, and the seconds until all predictions were known."""
        self._rows.inc(rows)
        self._prediction_seconds.observe(seconds)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=_BUCKETS, registry=self.registry)


class _MetricsCollector(Collector):
    """Reads the store and the control pages at every scrape, because jobs run in other processes."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        tables = {"datasets": DATASET_STATES, "jobs": TRANSITIONS, "predictions": PREDICTION_STATES}
        for table, states in tables.items():
            counts = self._store.count_by_state(table)
            values = {state: counts.get(state, 0) for state in states}
            yield _family(GaugeMetricFamily, table, f"{table.capitalize()} on record", "state", values)
        is_up = worker_is_there(self._settings.data_dir)
        yield GaugeMetricFamily("streamsvm_worker_up", "1 if a worker looks after the jobs", value=is_up)
        yield from self._running()
        yield from self._predicting()

    def _predicting(self) -> Iterator[Metric]:
        """Yield the figures of the running prediction of files."""
        records = self._store.jobs("running", kind="prediction")
        running = [prediction_view(self._settings, record) for record in records]
        for name, text in _OF_PREDICTIONS.items():
            values = {each["id"]: (each["progress"] or {name: 0})[name] for each in running}
            yield _family(CounterMetricFamily, f"prediction_{name}", text, "prediction", values)

    def _running(self) -> Iterator[Metric]:
        jobs = [job_view(self._settings, record) for record in self._store.jobs("running")]
        progress = {job["id"]: job["progress"] for job in jobs if job["progress"]}
        for figure in FIGURES.values():
            if kind := _FAMILIES.get(figure.metric):
                values = {job_id: shown[figure.name] for job_id, shown in progress.items()}
                yield _family(kind, f"job_{figure.name}", figure.meaning, "job", values)
        yield from _machines({job_id: shown["machines"] for job_id, shown in progress.items() if "machines" in shown})
        silence = {job_id: self._silence(job_id) for job_id in progress}
        what = "Since reader or trainer last did something"
        yield _family(GaugeMetricFamily, "job_silence_seconds", what, "job", silence)

    def _silence(self, job_id: str) -> float | None:
        """Return the seconds since the last heartbeat of reader or trainer; None if the run has ended or not begun."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            control = read_control(self._settings.jobs / job_id / "run")
            last = max(control["reader_heartbeat"], control["trainer_heartbeat"])
            return max(0.0, time.monotonic() - last) if last else None
        return None


def _machines(jobs: dict[str, list[dict[str, Any]]]) -> Iterator[Metric]:
    """Yield the metrics of machines, for jobs that run on several; `jobs`: job id -> progress of each machine."""
    for kind, figures in ((GaugeMetricFamily, _MACHINE_GAUGES), (CounterMetricFamily, _MACHINE_COUNTERS)):
        for name, text in figures.items():
            family = kind(f"streamsvm_job_machine_{name}", text, labels=("job", "machine", "node"))
            for job_id, machines in jobs.items():
                for machine in machines:
                    labels = (job_id, str(machine["machine"]), machine["node"])
                    family.add_metric(labels, machine["state"] == "in" if name == "in_round" else machine[name])
            yield family


def _family(kind: Any, name: str, text: str, label: str, values: Mapping[str, float | None]) -> Metric:
    """Make a family of metrics: a value, unless it is None, for each value of the label."""
    family = kind(f"streamsvm_{name}", text, labels=(label,))
    for labelled, value in values.items():
        if value is not None:
            family.add_metric((labelled,), value)
    return family


_TEXT: Responses = {200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/metrics", operation_id="getMetrics", response_class=Response, responses=_TEXT)
def get_metrics(request: Request) -> Response:
    """Prometheus's text format."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
