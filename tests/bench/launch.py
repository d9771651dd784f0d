"""Runs a command to its end, and says what it and all that it started took; in a control group, if one is named.

    python -m tests.bench.launch REPORT GROUP COMMAND ...

REPORT receives the exit code, the seconds of the command, and the core seconds of all its processes and the bytes that
they read from disks. What the command left behind comes to this process, which ends it: none of the core seconds is
lost. GROUP is a directory, or - for none.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

# Of prctl(2): what is orphaned below this process becomes its child; the signal that comes when a parent dies.
_SET_CHILD_SUBREAPER, _SET_PDEATHSIG = 36, 1
_libc = ctypes.CDLL(None, use_errno=True)
_FAREWELL_SECONDS = 5.0
_SECTOR = 512


def main(report: Path, group: str, command: list[str]) -> None:
    """Body of the launcher."""
    if _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if group != "-":
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    began = time.perf_counter()
    code = subprocess.call(command, preexec_fn=lambda: _libc.prctl(_SET_PDEATHSIG, signal.SIGTERM))
    seconds = time.perf_counter() - began
    _wait_for_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    core_seconds, read_bytes = used.ru_utime + used.ru_stime, used.ru_inblock * _SECTOR
    found = {"code": code, "seconds": seconds, "core_seconds": core_seconds, "read_bytes": read_bytes}
    report.write_text(json.dumps(found))


def _wait_for_the_rest() -> None:
    """Until nobody is left; what does not end by itself is ended."""
    until = time.monotonic() + _FAREWELL_SECONDS
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
                if time.monotonic() > until:
                    for child in psutil.Process().children(recursive=True):
                        child.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
