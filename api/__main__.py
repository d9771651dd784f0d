"""The api process, with a worker as its child: what `streamsvm serve` becomes.

python -m api --port 8000 --data-dir data
"""

import argparse
import subprocess
import sys
from pathlib import Path

import uvicorn

from api.app import create_app
from service.settings import Settings
from storage.child import child_environment

_SHUTDOWN_SECONDS = 10
HOST = "127.0.0.1"  # loopback only: there are no tokens yet


def main() -> int:
    """Serve until SIGTERM or Ctrl-C, then end the worker."""
    parser = argparse.ArgumentParser(prog="python -m api")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    settings = Settings.from_environment(options.data_dir)
    app = create_app(settings)
    worker = subprocess.Popen(
        [sys.executable, "-m", "service.worker", str(settings.data_dir)],
        env=child_environment(),
        start_new_session=True,
    )
    print(f"StreamSVM on http://{HOST}:{options.port}, data in {settings.data_dir}", flush=True)
    try:
        uvicorn.run(app, host=HOST, port=options.port, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    finally:
        worker.terminate()
        try:
            worker.wait(_SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
