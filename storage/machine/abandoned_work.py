"""Work for somebody who may leave before it is done: long loops ask at their borders whether it is still wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, local


class _Thread(local):
    # Not a context variable: a thread that asks the event loop for something would pass that on to it, and the loop to
    # whatever else comes by the same connection.
    unwanted: Event | None = None


_thread = _Thread()


class Unwanted(Exception):
    """Nobody waits for this work any more."""


@contextmanager
def wanted_until(unwanted: Event) -> Iterator[None]:
    """End what this thread calls in here with `Unwanted`, at its next border once the event is set, from any thread."""
    before, _thread.unwanted = _thread.unwanted, unwanted
    try:
        yield
    finally:
        _thread.unwanted = before


def check_wanted() -> None:
    """A border. Costs next to nothing; raises Unwanted."""
    unwanted = _thread.unwanted
    if unwanted is not None and unwanted.is_set():
        raise Unwanted
