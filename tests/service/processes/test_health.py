"""What health checks are told, and what logs are when something goes wrong many times a second."""

import logging
import os
import subprocess
import sys
import time

from streamsvm.service.processes.health import SILENCE_SECONDS, give_sign, lock, unlock, worker_is_there
from streamsvm.service.processes.logs import OnceASecond


def check(*arguments: object) -> int:
    command = [sys.executable, "-m", "streamsvm.service.processes.health", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_a_worker_is_there_while_it_gives_signs(tmp_path):
    assert not worker_is_there(tmp_path)
    held = lock(tmp_path, "worker")
    give_sign(held)
    assert worker_is_there(tmp_path)
    os.utime(held, (time.time() - SILENCE_SECONDS,) * 2)
    assert not worker_is_there(tmp_path)
    give_sign(held)
    unlock(held)
    assert not worker_is_there(tmp_path)


def test_the_exit_code_says_so(tmp_path):
    assert check("worker", "--data-dir", tmp_path) == 1
    held = lock(tmp_path, "worker")
    give_sign(held)
    assert check("worker", "--data-dir", tmp_path) == 0
    unlock(held)


def test_an_api_that_does_not_listen_is_not_there():
    assert check("api", "--port", 1) == 1


def test_a_check_loads_nothing_large():
    """It runs every few seconds."""
    slow = {"numba", "numpy", "fastapi", "pydantic"}
    code = f"import streamsvm.service.processes.health, sys; print(sorted({slow} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def told(*said):
    """Which of these (time, message) a logger with the filter tells."""
    filter_, found = OnceASecond(), []
    for created, message in said:
        record = logging.makeLogRecord({"msg": message})
        record.created = created
        found.append(filter_.filter(record))
    return found


def test_a_message_is_told_once_a_second():
    often = ((seconds, "full") for seconds in (0.0, 0.1, 0.9, 1.1, 1.2))
    assert told(*often) == [True, False, False, True, False]
    # Another message is told at once.
    assert told((0.0, "full"), (0.1, "other"), (0.2, "full")) == [True] * 3
