"""Evaluations: one at a time, each only as long as its client waits for it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from api.context import AppContext
from service.errors import ServiceError
from service.evaluating import evaluate_apart

_ONE = CapacityLimiter(1)


def dataset_named(fields: dict[str, Any]) -> str:
    """The name in `{"dataset": name}`. Raises ServiceError for anything else."""
    if fields.keys() - {"dataset"}:
        raise ServiceError("unknown_field", "there is no such field", 'Send {"dataset": "name"}.')
    if not isinstance(fields.get("dataset"), str):
        raise ServiceError("wrong_type", "dataset is not a name", 'Send {"dataset": "name"}.')
    return fields["dataset"]


def evaluation_paths(context: AppContext, model_id: str, dataset: str) -> tuple[Path, Path]:
    """Directories of a model and a dataset. Raises ServiceError unknown_model, unknown_dataset or not_ready."""
    model = context.store.model(model_id)
    return context.settings.models / model["id"], context.datasets.directory(
        context.datasets.manifest(dataset)[0]["id"]
    )


async def evaluate(request: Request, model: Path, dataset: Path) -> dict[str, Any]:
    """The evaluation, when it is its turn. Raises ClientDisconnect when nobody waits for it any more."""
    return await _while_connected(request, _in_turn(model, dataset))


async def _in_turn(model: Path, dataset: Path) -> dict[str, Any]:
    async with _ONE:
        return await evaluate_apart(model, dataset)


async def _while_connected(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    tasks = working, _ = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    """Returns when the client is gone; its request has been read to the end."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
