"""On PYTHONPATH, it makes the wall clock of every Python process wrong by the seconds that a file says."""

import datetime
import os
import sys
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


class NoPandas:
    """Its C code dies of a datetime that is not its own, and the service does without."""

    @staticmethod
    def find_spec(name, *_):
        if name == "pandas":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, NoPandas)
time.time = lambda: true_time() + offset()
time.time_ns = lambda: true_time_ns() + offset() * 1_000_000_000
datetime.datetime = SteppingDatetime
