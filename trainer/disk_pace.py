"""How fast a disk has been of late: one that others need more is to be left to them."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A disk that is slower than 200 MB/s is the reader's alone: what is read here would be missed there.
_TOO_SLOW = 5e-9  # seconds a byte
_AVERAGED = 128  # pieces of work: a pause of a quarter of a second is no sign of slowness


class DiskPace:
    """Times reads and writes of pieces of so many bytes. From several threads; a count lost between two is no harm."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self.forget()

    def forget(self) -> None:
        """Let the disk show anew how fast it is."""
        self._seconds = 0.0  # a piece, a moving average

    @property
    def is_slow(self) -> bool:
        return self._seconds > _TOO_SLOW * self._piece_bytes

    def timed(self, at_once: int, work: Callable[..., T], *arguments: object) -> T:
        """What the work on a piece results in; its time counts, so much of it done at once."""
        began = time.perf_counter()
        result = work(*arguments)
        self._seconds += ((time.perf_counter() - began) / at_once - self._seconds) / _AVERAGED
        return result
