"""The HTTP server around the application."""

import asyncio
import resource
import socket

import uvicorn
from fastapi import FastAPI

from streamsvm.api.context import AppContext
from streamsvm.api.requests.deadlines import Connections
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.settings import Settings

# Besides connections: uploads, model files, the store.
_OTHER_FILES = 512
# What is done for a client that is cut off has so long to come to its next border.
_BORDER_SECONDS = 1.0


def check_bind(settings: Settings) -> None:
    """Raise ServiceError `token_needed` if others could reach the service and there is no token."""
    if not settings.is_loopback and not Tokens(Database(settings.database)).list():
        raise ServiceError(
            "token_needed", f"listening on {settings.host} needs a token", "Make one: streamsvm token new NAME"
        )


def make_server(app: FastAPI, settings: Settings, port: int) -> uvicorn.Server:
    """A server whose `run` returns after a signal, when the requests that run then have had their while to end."""
    connections = Connections(settings, min(settings.max_connections, _allow_files(settings) - _OTHER_FILES))
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
        timeout_keep_alive=settings.idle_seconds,
    )
    return _Server(config, app.state.context)


class _Server(uvicorn.Server):
    """Its end waits for requests as long as they are given, and not for polls in which something is to happen to a job.

    Clients that are left then are cut off, and a thread that still works for one is not waited for. uvicorn itself
    would cancel such a request, write a traceback, and wait for the thread.
    """

    def __init__(self, config: uvicorn.Config, context: AppContext) -> None:
        super().__init__(config)
        self._context = context

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, and return though threads are at work."""
        loop = (self.config.get_loop_factory() or asyncio.new_event_loop)()
        try:
            loop.run_until_complete(self.serve(sockets))
        finally:
            # A thread may have something to say to a loop that has tasks.
            if not asyncio.all_tasks(loop):
                loop.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.feed.close()
        if self._context.keeper is not None:
            self._context.keeper.ask_to_stop()
        loop = asyncio.get_running_loop()
        cutting_off = loop.call_later(self._context.settings.shutdown_seconds, self._cut_off)
        await super().shutdown(sockets)
        cutting_off.cancel()
        if self.force_exit:
            await self.lifespan.shutdown()

    def _cut_off(self) -> None:
        """What is still done for somebody ends at its next border."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        asyncio.get_running_loop().call_later(_BORDER_SECONDS, self._leave)

    def _leave(self) -> None:
        self.force_exit = True


def _allow_files(settings: Settings) -> int:
    """Let this process open a file for each connection, if the system does; returns how many it may open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, settings.max_connections + _OTHER_FILES)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
