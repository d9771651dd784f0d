"""Reports on a run's control page how long its processes compile kernels.

This time does not count towards `max_seconds`, and a process that compiles does not count as one that hangs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamsvm.storage.machine.compile_time import COMPILE_TIME
from streamsvm.storage.run.state import Control, open_control

# Most seconds for which a process may compile without a break; on a busy machine, compiling takes minutes.
PATIENCE_SECONDS = 1800.0


@contextmanager
def telling_compiling(run: Path, process: str) -> Iterator[None]:
    """Within the block, report on the run's control page how long this process, "reader" or "trainer", compiles."""
    control, begun = open_control(run), COMPILE_TIME.seconds

    def tell(since: float) -> None:
        control[f"{process}_compile_seconds"] = COMPILE_TIME.seconds - begun
        control[f"{process}_compiles_since"] = since

    COMPILE_TIME.tell = tell
    try:
        yield
    finally:
        COMPILE_TIME.tell = lambda _since: None


def compile_seconds(control: Control, process: str) -> float:
    """Return the seconds that a process of the run has compiled, including those of a kernel being compiled now."""
    since = control[f"{process}_compiles_since"]
    return control[f"{process}_compile_seconds"] + (time.monotonic() - since if since else 0.0)


def is_compiling(control: Control) -> bool:
    """Whether the run's reader or trainer is compiling a kernel now."""
    return bool(control["reader_compiles_since"] or control["trainer_compiles_since"])


def silent_until(control: Control, process: str) -> float:
    """Return the time.monotonic until which a process that compiles may send no heartbeat; 0.0: it compiles nothing."""
    since = control[f"{process}_compiles_since"]
    return since + PATIENCE_SECONDS if since else 0.0
