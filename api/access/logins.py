"""Tokens that are tried in the form: some for each address, then one every few seconds; in bounded memory."""

import time
from collections import OrderedDict
from collections.abc import Callable

TRIES = 10
SECONDS_A_TRY = 6.0
_MOST_ADDRESSES = 4096


class Logins:
    """Failed tries by address; where there are very many addresses, the oldest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When an address has all its tries again.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def seconds_to_wait(self, address: str) -> float:
        """Until this address may try again; 0: it may now."""
        return max(0.0, self._behind(address) - (TRIES - 1) * SECONDS_A_TRY)

    def failed(self, address: str) -> None:
        """A try that was none."""
        self._full_at[address] = self._clock() + self._behind(address) + SECONDS_A_TRY
        self._full_at.move_to_end(address)
        if len(self._full_at) > _MOST_ADDRESSES:
            self._full_at.popitem(last=False)

    def _behind(self, address: str) -> float:
        return max(0.0, self._full_at.get(address, 0.0) - self._clock())
