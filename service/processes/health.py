"""Whether the api or the worker is there: what the health checks of containers run. Imports nothing that takes time.

python -m streamsvm.service.processes.health api --port 8000
python -m streamsvm.service.processes.health worker --data-dir /data
"""

import argparse
import sys
import time
import urllib.request
from pathlib import Path

from streamsvm.service.processes.lock import last_sign
from streamsvm.service.settings import Settings

# The longest a worker is busy with one thing: making a model of 2^27 weights durable, on a slow disk.
SILENCE_SECONDS = 60.0
_ANSWER_SECONDS = 5.0


def api_answers(port: int) -> bool:
    """Whether the api on this machine is ready for requests."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=_ANSWER_SECONDS):
            return True
    except OSError:
        return False


def worker_is_there(data_dir: Path) -> bool:
    """Whether a worker has the data directory and looks after its jobs."""
    sign = last_sign(data_dir, "worker")
    return sign is not None and time.time() - sign < SILENCE_SECONDS


def main() -> int:
    """Exit code 0: it is there, 1: it is not."""
    parser = argparse.ArgumentParser(prog="python -m streamsvm.service.processes.health", description=__doc__)
    parser.add_argument("process", choices=("api", "worker"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    if options.process == "api":
        return 0 if api_answers(options.port) else 1
    return 0 if worker_is_there(Settings.from_environment(options.data_dir).data_dir) else 1


if __name__ == "__main__":
    sys.exit(main())
