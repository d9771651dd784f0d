"""A service with a token, and what its framework is asked."""

import pytest

from tests.api.app import Service


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that others can reach, with a token to read and a job."""
    service = Service(tmp_path_factory.mktemp("closed"), host="0.0.0.0")
    service.job = service.store.add_job(service.add_dataset("data"), {"dataset": "data", "tolerance": None})
    service.token = service.tokens.new("reader", "read")
    return service


@pytest.fixture
def routed(closed, monkeypatch):
    """Requests that reach the framework's routes."""
    paths = []

    async def note(scope, receive, send, routes=closed.app.router.middleware_stack):
        paths.append(scope["path"])
        await routes(scope, receive, send)

    monkeypatch.setattr(closed.app.router, "middleware_stack", note)
    return paths
