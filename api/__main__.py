"""The api process, with a worker as its child: what `streamsvm serve` becomes.

python -m api --port 8000 --data-dir data
"""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import uvicorn

from api.app import create_app
from service.errors import ServiceError
from service.keeper import WorkerKeeper
from service.lock import lock
from service.settings import Settings

_SHUTDOWN_SECONDS = 10
_REFUSED = 5
HOST = "127.0.0.1"  # loopback only: there are no tokens yet


def main() -> int:
    """Serve until SIGTERM or Ctrl-C, then end the worker."""
    parser = argparse.ArgumentParser(prog="python -m api")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    settings = Settings.from_environment(options.data_dir)
    settings.create_directories()
    try:
        # Held until the process ends. Uploads of another api process are not ours to clean up.
        lock(settings.data_dir, "api")
        app = create_app(settings)
    except ServiceError as error:
        print(f"streamsvm: {error.message}", file=sys.stderr)
        return _REFUSED
    # At its end uvicorn raises the signal that ended it once more: it must unwind this function, not kill the process.
    signal.signal(signal.SIGTERM, _interrupt)
    worker = WorkerKeeper(settings.data_dir)
    try:
        worker.start()
        print(f"StreamSVM on http://{HOST}:{options.port}, data in {settings.data_dir}", flush=True)
        uvicorn.run(app, host=HOST, port=options.port, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    except KeyboardInterrupt:
        pass
    finally:
        worker.stop()
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
