"""The HTTP server around the application."""

import resource
import socket

import uvicorn
from fastapi import FastAPI

from streamsvm.api.requests.deadlines import Connections
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.records.database import Database
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.settings import Settings

# Besides connections: uploads, model files, the store.
_OTHER_FILES = 512


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
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    return _Server(config, app.state.context.feed)


class _Server(uvicorn.Server):
    """Its end does not wait for polls, in which something is to happen to a job, nor longer than requests are given."""

    def __init__(self, config: uvicorn.Config, feed: JobFeed) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._feed.close()
        await super().shutdown(sockets)
        # What is still done for somebody ends at its next border.
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _allow_files(settings: Settings) -> int:
    """Let this process open a file for each connection, if the system does; returns how many it may open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, settings.max_connections + _OTHER_FILES)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
