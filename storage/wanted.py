"""Work for somebody who may leave before it is done: long loops ask at their borders whether it is still wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

_unwanted: ContextVar[Event | None] = ContextVar("unwanted", default=None)


class Unwanted(Exception):
    """Nobody waits for this work any more."""


@contextmanager
def wanted_until(unwanted: Event) -> Iterator[None]:
    """End what is called in here with `Unwanted`, at its next border once the event is set, from any thread."""
    token = _unwanted.set(unwanted)
    try:
        yield
    finally:
        _unwanted.reset(token)


def check_wanted() -> None:
    """A border. Costs next to nothing; raises Unwanted."""
    unwanted = _unwanted.get()
    if unwanted is not None and unwanted.is_set():
        raise Unwanted
