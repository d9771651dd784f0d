"""Refuses requests for unknown host names: a site may point its own name at this address (DNS rebinding)."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from streamsvm.api.errors import problem

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class HostCheck:
    """Passes a request on if its Host is a loopback name or one of `allowed`, at any port; answers others with 421."""

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in (*_LOOPBACK, *allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and host_name(_host(scope)) not in self._allowed:
            answer = problem("host_not_allowed", "the service has another name", "Set STREAMSVM_ALLOWED_HOSTS.")
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")


def host_name(host: str) -> str:
    """Return the Host header without the port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
