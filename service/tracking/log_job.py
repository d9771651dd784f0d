"""Logs one job to the MLflow server of STREAMSVM_MLFLOW_URI and prints the id of its run.

A job that was logged before, whole or in part, keeps its run.

python -m streamsvm.service.tracking.log_job DATA_DIRECTORY JOB_ID
"""

import json
import sys
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from streamsvm.service.jobs.progress.progress import HISTORY, read_history
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.service.tracking.entries import STATUS, curve, milliseconds, outcome, parameters, tags
from streamsvm.service.tracking.models import log_model

_AT_ONCE = 1000  # metrics of a request


def main() -> int:
    """Log the job."""
    settings = Settings.from_environment(Path(sys.argv[1]))
    print(log_job(settings, Store(settings.database).job(sys.argv[2])))
    return 0


def log_job(settings: Settings, record: dict[str, Any]) -> str:
    """Log a job that has ended; returns the id of its run. Raises the errors of MLflow."""
    assert settings.mlflow_uri is not None
    mlflow.set_tracking_uri(settings.mlflow_uri)
    client = MlflowClient(settings.mlflow_uri)
    begin = milliseconds(record["started_at"] or record["created_at"])
    end = milliseconds(record["finished_at"] or record["created_at"])
    run_id = _run_of(client, settings.mlflow_experiment, record, begin)
    figures = [*curve(read_history(settings.jobs / record["id"] / HISTORY), begin), *outcome(record["result"], end)]
    client.log_batch(
        run_id,
        params=[Param(name, text) for name, text in parameters(record["spec"]).items()],
        tags=[RunTag(name, text) for name, text in tags(record).items()],
    )
    for begin_at in range(0, len(figures), _AT_ONCE):
        client.log_batch(run_id, metrics=[Metric(*each) for each in figures[begin_at : begin_at + _AT_ONCE]])
    for name in ("result", "failure"):
        if record[name]:
            client.log_dict(run_id, json.loads(json.dumps(record[name])), f"{name}.json")
    for model_id, name in _models(record):
        log_model(settings, client, run_id, model_id, name)
    client.set_terminated(run_id, STATUS[record["state"]], end)
    return run_id


def _run_of(client: MlflowClient, experiment: str, record: dict[str, Any], begin: int) -> str:
    """The run of a job, which is made unless it is there."""
    found = client.get_experiment_by_name(experiment)
    experiment_id = found.experiment_id if found else client.create_experiment(experiment)
    mlflow.set_experiment(experiment_id=experiment_id)  # models go there, too
    runs = client.search_runs([experiment_id], f"tags.`streamsvm.job` = '{record['id']}'", max_results=1)
    if runs:
        return runs[0].info.run_id
    return client.create_run(experiment_id, begin, tags(record), record["id"]).info.run_id


def _models(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Ids of a job's models, and their names in the run."""
    models = (record["result"] or {}).get("models") or ()
    if len(models) > 1:
        return [(each["model_id"], f"model_C_{each['C']:g}".replace(".", "_")) for each in models]
    return [(record["model_id"], "model")] if record["model_id"] else []


if __name__ == "__main__":
    sys.exit(main())
