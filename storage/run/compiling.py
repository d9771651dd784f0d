"""A run's control page says for how long its processes compile kernels.

That time is no training: `max_seconds` does not count it, and a process that compiles is not taken for one that hangs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamsvm.storage.machine.compile_time import COMPILE_TIME
from streamsvm.storage.run.state import Control, open_control

# Most seconds for which a process may compile without a break. A machine that others keep busy takes minutes.
PATIENCE_SECONDS = 1800.0


@contextmanager
def telling_compiling(run: Path, process: str) -> Iterator[None]:
    """Within the context the run's control page says for how long this process, "reader" or "trainer", compiles."""
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
    """Seconds for which a process of the run has compiled, with those of a kernel that is being compiled."""
    since = control[f"{process}_compiles_since"]
    return control[f"{process}_compile_seconds"] + (time.monotonic() - since if since else 0.0)


def is_compiling(control: Control) -> bool:
    """Whether a process of the run compiles a kernel now."""
    return bool(control["reader_compiles_since"] or control["trainer_compiles_since"])


def silent_until(control: Control, process: str) -> float:
    """The time.monotonic until which a process may be silent because it compiles; 0.0: it does not."""
    since = control[f"{process}_compiles_since"]
    return since + PATIENCE_SECONDS if since else 0.0
