"""Lets a first interrupt (Ctrl-C) end training with the model so far, and a second one end the program."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupting(stop: Callable[[], None]) -> Iterator[None]:
    """Let a first interrupt call `stop`, and leave a second interrupt to the handler that was set before.

    Does nothing outside of the main thread, or where interrupts are ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
