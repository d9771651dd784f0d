"""A service with a token, and the requests that reach its framework."""

import pytest

from tests.api.app import Service


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that others can reach, with a token to read and a job; its shortcuts predict."""
    service = Service(tmp_path_factory.mktemp("closed"), host="0.0.0.0")
    service.job = service.store.add_job(service.add_dataset("data"), {"dataset": "data", "tolerance": None})
    service.token = service.tokens.new("reader", "read")
    service.app.state.prediction_code.load()
    return service


@pytest.fixture
def routed_by(monkeypatch):
    """Lists the paths of requests that reach the routes of a service."""

    def watch(service: Service) -> list[str]:
        paths = []

        async def note(scope, receive, send, routes=service.app.router.middleware_stack):
            paths.append(scope["path"])
            await routes(scope, receive, send)

        monkeypatch.setattr(service.app.router, "middleware_stack", note)
        return paths

    return watch


@pytest.fixture
def routed(closed, routed_by):
    """Paths of requests that reach the framework's routes."""
    return routed_by(closed)
