"""Starts the process that evaluates a model."""

import json
import os
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.awaited import fork_awaited


async def evaluate_apart(model: Path, dataset: Path) -> dict[str, Any]:
    """Evaluate the model on the dataset, both given as directories, in a child process; cancelling kills it.

    Returns what `evaluate` returns. Raises the ServiceError of `evaluate`; evaluation_failed if the process died.
    """
    command = ["streamsvm.service.models.evaluation.evaluation", str(model), str(dataset)]
    with Path(os.devnull).open("rb") as nothing:
        child = await fork_awaited(command, nothing.fileno())
    try:
        code, output = await child.wait()
    finally:
        await child.end()
    if code == 0:
        return json.loads(output)
    if code == 1 and output.startswith(b'{"problem"'):
        raise ServiceError.of(json.loads(output)["problem"])
    raise ServiceError("evaluation_failed", "the evaluation's process died", "The service's log says more.")
