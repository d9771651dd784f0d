"""The api process, which `streamsvm serve` becomes; it starts a worker as its child unless --no-worker is set.

python -m streamsvm.api --port 8000 --data-dir data
"""

import argparse
import gc
import signal
import sys
from pathlib import Path
from threading import Thread

from streamsvm.api.app import create_app
from streamsvm.api.requests.deadlines import Deadlines
from streamsvm.api.server import check_bind, make_server
from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.fork_server import fork_server
from streamsvm.service.obsolete_names import tell_gone_settings
from streamsvm.service.processes.health import lock
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.processes.logs import log_as_json
from streamsvm.service.records.database import Database
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.tokens import NO_TOKENS, Tokens
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import OWN_MEMORY, keep_private, leave
from streamsvm.storage.machine.resources import memory_limit

_REFUSED = 5
_SWITCH_SECONDS = 5e-4
_LEAST_BYTES, _LEAST_GIVEN = 1 << 30, 256 << 20  # with less memory, compiling a kernel would end the process


def main() -> int:
    """Serve until SIGTERM or Ctrl-C, then end the worker; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m streamsvm.api")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--no-worker", action="store_true")
    options = parser.parse_args()
    settings = Settings.from_environment(options.data_dir, options.host)
    keep_private()
    log_as_json()
    tell_gone_settings()
    try:
        open_store(settings)
        check_bind(settings)
        # The lock is held until the process ends: cleaning up would remove unfinished uploads of a second api process.
        lock(settings.data_dir, "api")
        worker = None if options.no_worker else WorkerKeeper(settings)
        app = create_app(settings, worker)
    except ServiceError as error:
        print(f"streamsvm: {error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return _REFUSED
    # By default a prediction's thread keeps the interpreter from the event loop for five milliseconds at a time.
    # Measured beside a long prediction on two busy cores: 99 of 100 polls took at most 50 ms, by default 200 ms.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # When uvicorn ends it raises its signal again, which must unwind this function and not kill the process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # It forks the worker and all that reads bytes of clients.
        forks = fork_server()
        if worker:
            worker.start()
        forks.load("streamsvm.service.models.apart")
        print(f"StreamSVM on http://{settings.host}:{options.port}, data in {settings.data_dir}", flush=True)
        if settings.is_loopback:
            print(_access_notice(settings), flush=True)
        # The collector would look through all modules again while others are loaded, for a tenth of a second.
        gc.freeze()
        Thread(target=app.state.prediction_code.load, name="load-prediction-code", daemon=True).start()
        given = settings.max_api_bytes
        OWN_MEMORY.bound(max(_LEAST_GIVEN, given) if given else max(_LEAST_BYTES, memory_limit() // 2))
        make_server(app, settings, options.port, Deadlines()).run()
    except KeyboardInterrupt:
        pass
    finally:
        if worker:
            worker.stop()
    return 0


def _access_notice(settings: Settings) -> str:
    """Write a sentence for the person who starts a service on loopback: it says which clients can use the service."""
    tokens = Tokens(Database(settings.database))
    if tokens.are_needed() and not tokens.table():
        return f"Nobody gets in, for there have been tokens. {NO_TOKENS}"
    if settings.allowed_hosts and not tokens.are_needed():
        names = ", ".join(settings.allowed_hosts)
        return f"Nobody needs a token, not even through a proxy called {names}: streamsvm token new NAME ends that."
    return "Only this machine can reach it; --host and streamsvm token new are for others."


if __name__ == "__main__":
    # `leave` does not wait for threads whose clients have gone.
    leave(main())
