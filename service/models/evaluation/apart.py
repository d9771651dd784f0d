"""Starts the process that evaluates a model."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.storage.machine.child import child_environment


async def evaluate_apart(model: Path, dataset: Path) -> dict[str, Any]:
    """Evaluate the model on the dataset, both given as directories, in a child process; cancelling kills it.

    Returns what `evaluate` returns. Raises the ServiceError of `evaluate`; evaluation_failed if the process died.
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streamsvm.service.models.evaluation.evaluation", str(model), str(dataset)),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=child_environment(),
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode == 0:
        return json.loads(output)
    if child.returncode == 1 and output.startswith(b'{"problem"'):
        raise ServiceError.of(json.loads(output)["problem"])
    raise ServiceError("evaluation_failed", "the evaluation's process died", "The service's log says more.")
