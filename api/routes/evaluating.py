"""Evaluations: one at a time, each only as long as its client waits for it."""

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.context import AppContext
from streamsvm.api.requests.leaving import turn, while_connected
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.evaluation.apart import evaluate_apart


def dataset_named(fields: dict[str, Any]) -> str:
    """The name in `{"dataset": name}`. Raises ServiceError for anything else."""
    if fields.keys() - {"dataset"}:
        raise ServiceError("unknown_field", "there is no such field", 'Send {"dataset": "name"}.')
    if not isinstance(fields.get("dataset"), str):
        raise ServiceError("wrong_type", "dataset is not a name", 'Send {"dataset": "name"}.')
    return fields["dataset"]


async def evaluate(context: AppContext, request: Request, model_id: str, dataset: str) -> dict[str, Any]:
    """The evaluation, when it is its turn.

    Raises ServiceError, or ClientDisconnect when nobody waits for it any more.
    """
    directories = await run_in_threadpool(_directories, context, model_id, dataset)
    try:
        return await _in_turn(context, request, *directories)
    except ServiceError:
        # What was deleted in the meantime is not there, and not damaged.
        await run_in_threadpool(_directories, context, model_id, dataset)
        raise


def _directories(context: AppContext, model_id: str, dataset: str) -> tuple[Path, Path]:
    """Of a model and a dataset. Raises ServiceError unknown_model, unknown_dataset, not_ready or dataset_spread."""
    model, (record, _) = context.store.model(model_id), context.datasets.with_rows(dataset)
    return context.settings.models / model["id"], context.datasets.directory(record["id"])


async def _in_turn(context: AppContext, request: Request, model: Path, dataset: Path) -> dict[str, Any]:
    async with turn(request, context.shared.evaluations):
        return await while_connected(request, evaluate_apart(model, dataset))
