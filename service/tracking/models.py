"""Logs a model to MLflow as a pyfunc, which `streamsvm.mlflow` loads."""

from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.models import Model as MlflowModel
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.registry import load_model
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import Model

LOADER = "streamsvm.mlflow"
_MOST_COLUMNS = 1000
OUTPUT = ParamSpec("output", "string", "label")


def log_model(settings: Settings, client: MlflowClient, run_id: str, model_id: str, name: str) -> None:
    """Log a model of a job as `name`, unless the run has it."""
    if any(each.name == name for each in _logged(client, run_id)):
        return
    model = load_model(settings, model_id)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        with path.open("wb") as file:
            file.writelines(MODEL_FORMATS["npz"].write(model))
        # `mlflow.pyfunc.log_model` needs a run that is active, which then ends with the first model.
        MlflowModel.log(
            artifact_path=None,
            name=name,
            flavor=mlflow.pyfunc,
            run_id=run_id,
            loader_module=LOADER,
            data_path=str(path),
            signature=signature_of(model),
            pip_requirements=[f"streamsvm[sklearn,parquet]=={version('streamsvm')}"],
            metadata={"streamsvm.model": model_id},
        )


def signature_of(model: Model) -> ModelSignature | None:
    """Return the signature of a model, which takes columns, documents or strings, or an array; None if too wide."""
    columns = _columns(model)
    if columns is not None and len(columns) > _MOST_COLUMNS:
        return None
    array = TensorSpec(np.dtype(np.float64), (-1, model.n_features))
    has_words = any(isinstance(label, str) for label in model.labels)
    answer = Schema([ColSpec("string" if has_words else "double")])
    return ModelSignature(Schema([array] if columns is None else columns), answer, ParamSchema([OUTPUT]))


def _columns(model: Model) -> list[Any] | None:
    input_ = model.about.get("input") or {}
    if "columns" in input_ and input_["has_names"]:
        words, may_miss = set(input_["categorical"]), input_["missing"] != "error"
        return [
            ColSpec("string" if name in words else "double", name, required=not may_miss) for name in input_["columns"]
        ]
    return [ColSpec("string")] if input_.get("format") in ("text", "fasta") else None


def _logged(client: MlflowClient, run_id: str) -> list[Any]:
    run = client.get_run(run_id)
    ids = [each.model_id for each in run.outputs.model_outputs] if run.outputs else []
    return [client.get_logged_model(each) for each in ids]
