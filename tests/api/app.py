"""Runs the application in this process on a data directory, and fills that without jobs."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI

from streamsvm.api.app import create_app
from streamsvm.api.errors import STATUS
from streamsvm.service.records.database import Database
from streamsvm.service.records.store import Store
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import Model, write_model
from tests.api.answers import checked
from tests.contracts.problems import make_dataset, random_problem

# What run.json says of a job of one.
ONE_LANE = {"number": 0, "count": 1, "of": 1, "class": 1.0, "fold": None, "C": 1.0}
CERTIFICATE = {
    "m_plus": 5e-5, "m_minus": -5e-5, "gap": 1e-4, "primal_objective": 2.0, "dual_objective": 1.5,
    "relative_duality_gap": 0.25, "w_error": 1e-15,
}  # fmt: skip
PROBLEM = {"type", "title", "status", "detail", "code", "hint", "at", "request_id"}


class Client:
    """Sends requests to an app, without a server.

    is_checked  holds each answer against the OpenAPI document; not where records are odd on purpose
    """

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.is_checked = True

    def __call__(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        return asyncio.run(self._send(method, url, arguments))

    async def _send(self, method: str, url: str, arguments: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.request(method, url, **arguments)
        return checked(answer) if self.is_checked else answer


class Service:
    """A data directory and an app on it."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.settings = Settings(data_dir, data_dir, **settings)
        self.app = create_app(self.settings)
        self.request = Client(self.app)
        self.store = Store(self.settings.database)
        self.tokens = Tokens(Database(self.settings.database))

    def add_dataset(self, name: str, X: Any = None, y: Any = None) -> str:
        """Make a dataset as an upload would; return its id."""
        if X is None:
            X, y = random_problem(60, 40)
        dataset_id = self.store.add_dataset(name)
        make_dataset(self.settings.datasets / dataset_id, X, y)
        self.store.set_dataset_ready(dataset_id)
        return dataset_id

    def add_model(self, dataset_id: str, model: Model) -> str:
        """Make a model as a job would; return its id."""
        job = self.store.add_job(dataset_id, {"dataset": "data"})
        model_id = job.replace("job", "mdl")
        write_model(self.settings.models / model_id, model)
        while self.store.claim() is not None:
            pass
        self.store.finish(job, "succeeded", model_id=model_id)
        return model_id


def nothing_is_left(service: Service) -> bool:
    """Tell whether there is no dataset, nor any file of one."""
    return not service.store.datasets() and not list(service.settings.datasets.iterdir())


def some_model(labels: tuple[float, float] = (1.0, -1.0), bias: float | None = 1.0) -> Model:
    """Make a model of two classes with four features, numbered from 1."""
    about = {"loss": "hinge", "converged": True, "stop_reason": "tolerance", "passes": 3, "certificate": CERTIFICATE}
    return Model(np.array([0.5, 0.0, -2.0, 1 / 3]), labels, 1, bias, 0.25 if bias is not None else 0.0, about)


def model_of_texts() -> Model:
    """Make a model of three classes with probabilities and four features, numbered from 1."""
    w = np.array([[1.0, 0.0, -0.5, 0.0], [0.0, 0.5, 0.0, 1.0], [-1.0, 0.0, 2.0, 0.25]])
    return Model(w, ("ham", "spam", "ü"), 1, 1.0, (0.5, 0.0, -0.25), {"loss": "hinge"}, ((-1.5, 0.25),) * 3)


def check_problem(response: httpx.Response, code: str, status: int | None = None) -> dict[str, Any]:
    """Check that a response is an RFC 9457 problem with this code; return it."""
    assert response.headers["content-type"] == "application/problem+json"
    if response.request.method == "HEAD":  # its answer has no body
        assert response.status_code == STATUS[code]
        return {}
    body = response.json()
    assert (body["code"], body["status"]) == (code, response.status_code)
    assert status is None or response.status_code == status
    assert body.keys() == PROBLEM
    assert body["type"].endswith(code) and body["title"] and body["request_id"].startswith("req_")
    assert body["detail"] != "" and body["hint"]
    assert "Traceback" not in response.text
    return body
