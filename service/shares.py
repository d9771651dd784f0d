"""Divides an amount among clients: no client gets all of it, and waiting clients take turns."""

import asyncio
from collections import deque

# Bytes a second. A client slower than this may lose its amount if another client waits for it.
LEAST_RATE = 10_000.0


def share_of(total: int) -> int:
    """Return how much of `total` one client may have: three quarters, at least 1."""
    return max(1, total * 3 // 4)


class Shares:
    """Divides `total` among clients; each holds at most its share, `share_of(total)`. Used in one event loop.

    A client calls `take` or `wait`, then `give_back` with the same amount. An amount above the share counts as a share.
    """

    def __init__(self, total: int) -> None:
        self._total, self._each = total, share_of(total)
        self._held: dict[str, int] = {}
        # client -> its waiting requests, the longest first; the first client is the next one to have a turn.
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    @property
    def in_use(self) -> int:
        """The amount that clients hold."""
        return sum(self._held.values())

    def is_wanted(self, client: str) -> bool:
        """Whether a request waits that could get what `client` holds: its own, or one of a client below its share."""
        return any(
            waiting and (other == client or self._has_room(other, waiting[0][0]))
            for other, waiting in self._waiting.items()
        )

    def take(self, client: str, amount: int = 1) -> bool:
        """Take an amount if it is free now and nobody waits; return whether it was taken."""
        amount = min(amount, self._each)
        if self._waiting or not self._has_room(client, amount) or not self._is_free(amount):
            return False
        self._hold(client, amount)
        return True

    async def wait(self, client: str, amount: int = 1) -> None:
        """Wait for this client's turn, and take an amount."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine = min(amount, self._each), turn
        self._waiting.setdefault(client, deque()).append(mine)
        self._deal()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(client, amount)
            else:
                self._leave(client, mine)
            raise

    def give_back(self, client: str, amount: int = 1) -> None:
        """Give back an amount that `take` or `wait` took."""
        self._held[client] -= min(amount, self._each)
        if not self._held[client]:
            del self._held[client]
        self._deal()

    def _leave(self, client: str, mine: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting.get(client, deque())
        if mine in waiting:
            waiting.remove(mine)
        self._deal()

    def _deal(self) -> None:
        """Give the free amount to waiting clients, one after the other."""
        while (client := self._next()) is not None:
            waiting = self._waiting.pop(client)
            amount, turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting
            self._hold(client, amount)
            turn.set_result(None)

    def _next(self) -> str | None:
        """Return the client whose turn it is; None if nobody waits, or too little is free for that client.

        Clients whose next request would exceed their share are skipped; no other client is overtaken.
        """
        for client, waiting in list(self._waiting.items()):
            # A cancelled request is still in the queue until its task runs and calls `_leave`.
            while waiting and waiting[0][1].cancelled():
                waiting.popleft()
            if not waiting:
                del self._waiting[client]
                continue
            if self._has_room(client, waiting[0][0]):
                return client if self._is_free(waiting[0][0]) else None
        return None

    def _has_room(self, client: str, amount: int) -> bool:
        return self._held.get(client, 0) + amount <= self._each

    def _is_free(self, amount: int) -> bool:
        return self.in_use + amount <= self._total

    def _hold(self, client: str, amount: int) -> None:
        self._held[client] = self._held.get(client, 0) + amount
