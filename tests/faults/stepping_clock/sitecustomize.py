"""On PYTHONPATH, it makes the wall clock of every Python process wrong by the seconds that a file says."""

import datetime
import os
import time
from pathlib import Path

OFFSET_FILE = Path(os.environ["CLOCK_OFFSET_FILE"])
true_time, true_time_ns = time.time, time.time_ns


def offset() -> int:
    return int(OFFSET_FILE.read_text())


class SteppingDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)


time.time = lambda: true_time() + offset()
time.time_ns = lambda: true_time_ns() + offset() * 1_000_000_000
datetime.datetime = SteppingDatetime
