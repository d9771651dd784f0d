"""Measures the peak memory of a process and its descendants while they run."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Part of a process's command line -> its role.
ROLES = {
    "-m streamsvm.api": "api",
    "streamsvm.service.processes.worker": "worker",
    "streamsvm.reader.ingest": "ingest",
    "streamsvm.reader.stream.process": "reader",
    "streamsvm.trainer.process": "trainer",
}
_PERIOD_SECONDS = 0.05


class PeakMemory:
    """Watches a process in a thread. `peaks`: role -> bytes, of it and its descendants; `own`: bytes of the process.

    It reads /proc: getrusage would count a parent's peak as the child's.
    """

    def __init__(self, pid: int) -> None:
        self.peaks = dict.fromkeys(ROLES.values(), 0)
        self.own = 0
        self._pid = pid
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory")

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(_PERIOD_SECONDS):
            self.own = max(self.own, _high_water(self._pid))
            for pid in _descendants(self._pid):
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            role = next((role for mark, role in ROLES.items() if mark in command), None)
            if role is not None:
                self.peaks[role] = max(self.peaks[role], _high_water(pid))


def _descendants(pid: int) -> Iterator[int]:
    """The process, its children, their children, and so on."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _descendants(int(child))


def _high_water(pid: int) -> int:
    """The process's peak memory (VmHWM) in bytes; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
