"""Peak memory: of this process, as the kernel notes it; of processes that share pages, by looking now and then."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import psutil

# Adding up the pages of a process takes milliseconds: often enough to meet a peak, seldom enough not to be felt.
_LOOK_SECONDS = 0.25
_SHARED_FAIRLY = ("Pss_Anon:", "Pss_File:")


class Peak:
    """The most memory this process, or a process it has waited for, had resident since this was made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")

    def take(self) -> int:
        """Bytes."""
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return max(int(status["VmHWM"].split()[0]), children) * 1024


class Watch:
    """Context in which a thread watches all processes below this one, and the files they keep in memory.

    `peak_bytes`: the most there was of their private pages, their share of common pages (libraries) and the blocks of
    all files below `tmpfs`, a directory in memory; mapped files count there and nowhere else.
    """

    def __init__(self, tmpfs: Path) -> None:
        self._tmpfs = tmpfs
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_until_ended)
        self.peak_bytes = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look_until_ended(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            processes = psutil.Process().children(recursive=True)
            now = sum(_share(child.pid) for child in processes) + _blocks(self._tmpfs)
            self.peak_bytes = max(self.peak_bytes, now)


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_SHARED_FAIRLY))


def _blocks(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
