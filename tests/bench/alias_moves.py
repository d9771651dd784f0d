"""An alias moved while clients predict by it: each answer is of one version, none fails, and none waits longer."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsvm.storage.models.model_file import Model
from tests.api.app import Service as Filled
from tests.api.app import some_model
from tests.bench.one_row import read_answer, request_of
from tests.bench.report import header, prose, row
from tests.end_to_end.service import Service

_MOVES = int(os.environ.get("MOVES", "1000"))
_CLIENTS = int(os.environ.get("CLIENTS", "50"))
_WEIGHTS = (1.0, 2.0)  # of the one feature of version 1, and of version 2
_PREDICT, _ALIAS = "/v1/models/churn@champion/predict", "/v1/registered-models/churn/aliases/champion"


class _Clients:
    """Clients of a service on this port; `seconds` has how long each answer took, `versions` whose it was."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = False
        self.seconds: list[float] = []
        self.versions: Counter[int] = Counter()

    async def predict(self, moving: bool) -> None:
        """Predict with all clients while the alias is moved, or for as long as nothing is; checks every answer."""
        clients = [asyncio.ensure_future(self._client()) for _ in range(_CLIENTS)]
        await (self._move() if moving else asyncio.sleep(10.0))
        self._is_over = True
        await asyncio.gather(*clients)

    async def _client(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        request = request_of(_PREDICT, json.dumps({"rows": [{"1": 1.0}]}), {})
        while not self._is_over:
            began = time.perf_counter()
            writer.write(request)
            head, body = await read_answer(reader)
            self.seconds.append(time.perf_counter() - began)
            version = int(head.split("model-version: ")[1].split("\r\n")[0])
            value = json.loads(body)["predictions"][0]["decision_value"]
            if value != _WEIGHTS[version - 1]:
                raise ValueError(f"version {version} answers {value}")
            self.versions[version] += 1
        writer.close()

    async def _move(self) -> None:
        """Move the alias to and fro, and see that what is asked after a move is answered by the new version."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for number in range(_MOVES):
            version = 1 + number % 2
            request = request_of(_ALIAS, json.dumps({"version": version}), {})
            writer.write(request.replace(b"POST", b"PUT", 1))
            await read_answer(reader)
            writer.write(request_of(_PREDICT, json.dumps({"rows": [{"1": 1.0}]}), {}))
            head, _ = await read_answer(reader)
            if f"model-version: {version}\r\n" not in head:
                raise ValueError(f"the alias was moved to {version}, the next answer is of another version")
        writer.close()


def run() -> Iterator[str]:
    """Have clients predict, first while the alias stays, then while it moves."""
    yield from prose(
        f"{_CLIENTS} clients predict one row at a time by an alias: for 10 s while it stays, then while it is moved "
        f"{_MOVES:,} times between two versions as fast as the service answers. Each answer names one version and has "
        "the value of that; the first one asked after a move is of the version that it was moved to. Clients run on "
        "the cores of the service."
    )
    yield from header("the alias", "answers", "of version 1", "of version 2", "failed", "median ms", "99% ms")
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "service")
        _fill(service)
        try:
            port = int(service.start().url.rsplit(":", 1)[1])
            for name in ("stays", "moves"):
                clients = _Clients(port)
                asyncio.run(clients.predict(moving=name == "moves"))
                yield row(name, *_figures(clients))
        finally:
            service.kill()


def _figures(clients: _Clients) -> Iterator[str]:
    yield f"{len(clients.seconds):,}"
    yield from (f"{clients.versions[version]:,}" for version in (1, 2))
    yield "0"  # a failed answer, or a wrong one, ends the bench
    yield f"{1e3 * statistics.median(clients.seconds):.4g}"
    yield f"{1e3 * statistics.quantiles(clients.seconds, n=100)[-1]:.4g}"


def _fill(service: Service) -> None:
    """Give a service that has not started two versions of a model, and an alias."""
    filled = Filled(service.data_dir)
    dataset = filled.add_dataset("data")
    for weight in _WEIGHTS:
        model = Model(np.array([weight]), (1.0, -1.0), 1, None, 0.0, some_model().about)
        filled.store.register_model("churn", filled.add_model(dataset, model))
    filled.store.move_alias("churn", "champion", 1, "the bench")
