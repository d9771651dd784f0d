"""The worker process: takes jobs from the queue, several at a time, and runs each to its end; predicts files as well.

python -m streamsvm.service.processes.worker DATA_DIRECTORY
"""

import logging
import signal
import sqlite3
import sys
import time
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.forking import serve_here
from streamsvm.service.processes.health import give_sign, lock, unlock
from streamsvm.service.processes.jobs import JobWork
from streamsvm.service.processes.logs import log_as_json
from streamsvm.service.processes.predictions import PredictionWork
from streamsvm.service.records.opening import open_store
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import die_with_parent, keep_private

_POLL_SECONDS, _SIGN_SECONDS = 0.1, 1.0
REFUSED, UNUSABLE = 5, 1  # exit codes: another worker has the data directory; directory or store cannot be used
_log = logging.getLogger("streamsvm.worker")


class Worker:
    """Runs the jobs and predictions of a data directory: call `step` again and again, at last `shutdown`.

    The constructor locks the directory, and recovers what an earlier worker left running. `shutdown` queues again what
    still runs.
    """

    def __init__(self, settings: Settings) -> None:
        self._store = open_store(settings)
        self._lock = lock(settings.data_dir, "worker")
        self._next_sign = 0.0
        self.predictions, self.jobs = PredictionWork(settings, self._store), JobWork(settings, self._store)
        for work in (self.predictions, self.jobs):
            work.recover()

    def step(self) -> None:
        """Look after the jobs and predictions that run, and start the next ones if there is room."""
        if time.monotonic() >= self._next_sign:
            give_sign(self._lock)
            self._next_sign = time.monotonic() + _SIGN_SECONDS
            self._store.later.background.is_there()
            self.predictions.attend()
            self.jobs.attend()
        self.predictions.step(self.jobs.needs)
        self.jobs.step(self.predictions.needs)

    def shutdown(self) -> None:
        """Hand back what runs, and the data directory."""
        self.jobs.shutdown()
        self.predictions.shutdown()
        unlock(self._lock)


def main(data_dir: str | Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; running jobs go back to the queue."""
    die_with_parent()
    keep_private()
    serve_here()  # before there are signals, a log and locks of this process
    log_as_json()
    settings = Settings.from_environment(Path(data_dir))
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    try:
        worker = Worker(settings)
    except ServiceError as error:
        print(f"streamsvm: {error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return REFUSED if error.code == "already_running" else UNUSABLE
    # An error outside of jobs ends the process; the next worker counts the running jobs as crashed.
    try:
        while not stopping:
            worker.step()
            time.sleep(_POLL_SECONDS)
    except sqlite3.Error as error:
        _log.error("the records cannot be read or written: %s", error)
        return UNUSABLE
    worker.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
