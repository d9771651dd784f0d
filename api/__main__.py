"""The api process, with a worker as its child: what `streamsvm serve` becomes.

python -m api --port 8000 --data-dir data
"""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from api.app import create_app
from service.database import Database
from service.errors import ServiceError
from service.keeper import WorkerKeeper
from service.lock import lock
from service.logs import log_as_json
from service.settings import Settings
from service.tokens import Tokens

_REFUSED = 5


def main() -> int:
    """Serve until SIGTERM or Ctrl-C, then end the worker."""
    parser = argparse.ArgumentParser(prog="python -m api")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    settings = Settings.from_environment(options.data_dir, options.host)
    settings.create_directories()
    log_as_json()
    try:
        check_bind(settings)
        # Held until the process ends. Uploads of another api process are not ours to clean up.
        lock(settings.data_dir, "api")
        app = create_app(settings)
    except ServiceError as error:
        print(f"streamsvm: {error.message} {error.hint}".rstrip(), file=sys.stderr)
        return _REFUSED
    # At its end uvicorn raises the signal that ended it once more: it must unwind this function, not kill the process.
    signal.signal(signal.SIGTERM, _interrupt)
    worker = WorkerKeeper(settings.data_dir)
    try:
        worker.start()
        print(f"StreamSVM on http://{settings.host}:{options.port}, data in {settings.data_dir}", flush=True)
        serve(app, settings, options.port)
    except KeyboardInterrupt:
        pass
    finally:
        worker.stop()
    return 0


def check_bind(settings: Settings) -> None:
    """Raise ServiceError `token_needed` if others could reach the service and there is no token."""
    if not settings.is_loopback and not Tokens(Database(settings.database)).list():
        raise ServiceError(
            "token_needed", f"listening on {settings.host} needs a token.", "Make one: streamsvm token new NAME"
        )


def serve(app: FastAPI, settings: Settings, port: int) -> None:
    """Answer requests until a signal comes; those that run get a while to end."""
    uvicorn.run(
        app,
        host=settings.host,
        port=port,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
