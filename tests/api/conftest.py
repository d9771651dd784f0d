"""Fixtures: an empty service for each test, and a filled one that tests share and only read."""

import pytest

from streamsvm.api.routes import predicting
from tests.api.app import Service, model_of_texts, some_model


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """Has the dataset `data` and models of it: `model`; `half`, whose labels no C int can hold; `texts`, of three."""
    service = Service(tmp_path_factory.mktemp("service"))
    dataset_id = service.add_dataset("data")
    service.model = service.add_model(dataset_id, some_model())
    service.half = service.add_model(dataset_id, some_model((0.5, -0.5)))
    service.texts = service.add_model(dataset_id, model_of_texts())
    return service


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that others can reach, with a token to read and a job; its event loop predicts few rows."""
    service = Service(tmp_path_factory.mktemp("closed"), host="0.0.0.0")
    service.job = service.store.add_job(service.add_dataset("data"), {"dataset": "data", "tolerance": None})
    service.token = service.tokens.new("reader", "read")
    service.app.state.prediction_code.load()
    return service


@pytest.fixture
def in_threads(monkeypatch):
    """Lists the paths of requests whose rows are predicted in a thread."""
    paths = []

    async def note(request, work, in_thread=predicting.in_thread):
        paths.append(request.url.path)
        return await in_thread(request, work)

    monkeypatch.setattr(predicting, "in_thread", note)
    return paths
