"""MLflow: a job of a service, followed while it runs: its fields, the curves of its passes, and its models."""

# %%
# `python follow_to_mlflow.py JOB` takes the id of a job that waits, runs, or has ended. STREAMSVM_URL is the service,
# MLFLOW_TRACKING_URI the server of MLflow, whose client comes with `pip install mlflow`.

import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import mlflow

import streamsvm
from streamsvm import Client

job = Client(os.environ.get("STREAMSVM_URL", "http://localhost:8000")).job(sys.argv[1])
mlflow.set_experiment("streamsvm")
mlflow.start_run(run_name=job.id)
mlflow.log_params({name: value for name, value in job.view["spec"].items() if value is not None})

# %%
# Figures are numbers, by name. Problems that are trained side by side have figures of their own.


def figures(told: Mapping, before: str = "") -> Iterator[tuple[str, float]]:
    """Yield the names and values of all numbers in the figures of a pass, or of the result."""
    for name, value in told.items():
        if isinstance(value, int | float) and math.isfinite(value):
            yield before + name, value
    lanes = told.get("lanes") or []
    for number, lane in enumerate(lanes if len(lanes) > 1 else []):
        yield from figures(lane, f"{before}lane_{number}/")


# %%
# `watch` tells all passes from the first, whenever it begins. After a lost connection it goes on where it was.

for kind, what in job.watch():
    if kind == "pass":
        mlflow.log_metrics(dict(figures(what)), step=what["pass"])

result = job.view["result"] or {}
mlflow.log_metrics(dict(figures(result.get("certificate") or {}, "certificate/")))

# %%
# A model is an estimator of scikit-learn, and MLflow's flavour of that name takes it. cloudpickle holds every model;
# skops, which MLflow would choose, wants each type in a model to be named.

folder = Path(tempfile.mkdtemp(prefix="streamsvm-example-"))
for model in job.models:
    model.download(folder / f"{model.id}.npz")
    mlflow.sklearn.log_model(
        streamsvm.load(folder / f"{model.id}.npz"),
        name=model.id,
        serialization_format="cloudpickle",
        pip_requirements=["streamsvm[sklearn]"],
    )
mlflow.end_run({"failed": "FAILED", "cancelled": "KILLED"}.get(job.state, "FINISHED"))
