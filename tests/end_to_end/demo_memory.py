"""The peak memory of a service's processes, read while they live."""

import threading
from pathlib import Path

from tests.end_to_end.service import Processes

# What a command line has in it -> what the process is called.
ROLES = {
    "-m api": "api",
    "service.worker": "worker",
    "reader.ingest": "ingest",
    "reader.process": "reader",
    "trainer.process": "trainer",
}
_PERIOD_SECONDS = 0.05


class PeakMemory:
    """`peaks`: role -> bytes, from /proc: in getrusage a process starts with the peak of its parent."""

    def __init__(self, processes: Processes) -> None:
        self.peaks = dict.fromkeys(ROLES.values(), 0)
        self._processes = processes
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
            for pid in self._processes.alive():
                self._look_at(Path(f"/proc/{pid}"))

    def _look_at(self, process: Path) -> None:
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            status = (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        role = next((role for mark, role in ROLES.items() if mark in command), None)
        if role is not None:
            self.peaks[role] = max(self.peaks[role], _high_water(status))


def _high_water(status: str) -> int:
    """VmHWM in bytes; a process about to be gone has none."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
