"""Long loops whose caller may leave before they end: at each round they ask whether the work is still wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, local


class _Thread(local):
    unwanted: Event | None = None


_thread = _Thread()


class Unwanted(Exception):
    """The caller of this work has left."""


@contextmanager
def wanted_until(unwanted: Event) -> Iterator[None]:
    """Inside the block, `check_wanted` raises Unwanted in this thread once any thread has set the event."""
    before, _thread.unwanted = _thread.unwanted, unwanted
    try:
        yield
    finally:
        _thread.unwanted = before


def check_wanted() -> None:
    """Raise Unwanted if the caller has left. Costs next to nothing."""
    unwanted = _thread.unwanted
    if unwanted is not None and unwanted.is_set():
        raise Unwanted
