"""Runs the HTTP server around the application, and ends it."""

import asyncio
import resource
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from streamsvm.api.context import AppContext
from streamsvm.api.requests.deadlines import Connections, Deadlines
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.loaded import forget_predictors
from streamsvm.service.records.database import Database
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.settings import Settings

# Number of open files that are no connections: uploads, model files, the store.
_OTHER_FILES = 512
# Work for a client that was cut off has this long to reach its next check and end.
_BORDER_SECONDS = 1.0


def check_bind(settings: Settings) -> None:
    """Raise ServiceError token_needed if other machines could reach the service and there is no token."""
    if not settings.is_loopback and not Tokens(Database(settings.database)).list():
        raise ServiceError(
            "token_needed", f"listening on {settings.host} needs a token", "Make one: streamsvm token new NAME"
        )


def make_server(app: FastAPI, settings: Settings, port: int, deadlines: Deadlines) -> uvicorn.Server:
    """Make a server whose `run` returns after a signal, within little more than `shutdown_seconds`."""
    most = min(settings.max_connections, _allow_files(settings) - _OTHER_FILES)
    connections = Connections(most, settings.least_bytes_per_second, deadlines)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=port,
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_keep_alive=deadlines.idle,
    )
    return _Server(config, app.state.context)


class _Server(uvicorn.Server):
    """A server that ends within `shutdown_seconds`: it answers waiting polls at once, and waits for other requests.

    Then it cuts off the remaining clients and ends, though threads may still work for them. uvicorn itself would
    cancel a request whose thread still works, write a traceback, and wait for the thread.
    """

    def __init__(self, config: uvicorn.Config, context: AppContext) -> None:
        super().__init__(config)
        self._context = context

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal; return even if threads still work."""
        loop = (self.config.get_loop_factory() or asyncio.new_event_loop)()
        loop.set_exception_handler(_on_fault)
        try:
            loop.run_until_complete(self.serve(sockets))
        finally:
            # A thread that is still at work may call a loop that has tasks.
            if not asyncio.all_tasks(loop):
                loop.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.feed.close()
        self._context.datasets.resumable.close()
        if self._context.keeper is not None:
            self._context.keeper.ask_to_stop()
        loop = asyncio.get_running_loop()
        cutting_off = loop.call_later(self._context.settings.shutdown_seconds, self._cut_off)
        await super().shutdown(sockets)
        cutting_off.cancel()
        await self._context.feed.end()
        await self._context.datasets.resumable.end(_BORDER_SECONDS)
        if self.force_exit:
            await self.lifespan.shutdown()

    def _cut_off(self) -> None:
        """Close all connections; work for their clients ends at its next check."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        asyncio.get_running_loop().call_later(_BORDER_SECONDS, self._leave)

    def _leave(self) -> None:
        self.force_exit = True


def _on_fault(loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
    """Free the memory of models if the event loop lacked memory; log the fault."""
    if isinstance(fault.get("exception"), MemoryError):
        forget_predictors()
    loop.default_exception_handler(fault)


def _allow_files(settings: Settings) -> int:
    """Raise the process's limit of open files above `max_connections`, or as far as possible; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, settings.max_connections + _OTHER_FILES)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
