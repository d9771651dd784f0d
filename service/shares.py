"""Shares of something for clients: none has all of it, and those who wait have their turns."""

import asyncio
from collections import deque


def share_of(total: int) -> int:
    """The most that one client may have of `total`: never all, if there is more than one."""
    return max(1, total * 3 // 4)


class Shares:
    """An amount of something, of which one client has at most `share_of` it. Used in one event loop.

    `take` it or `wait` for it, then `give_back`; what is more than a share counts as one.
    """

    def __init__(self, total: int) -> None:
        self._total, self._each = total, share_of(total)
        self._held: dict[str, int] = {}
        # The client whose turn is next is the first; of one client, who waits longest.
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    @property
    def in_use(self) -> int:
        """The amount that clients hold."""
        return sum(self._held.values())

    def take(self, client: str, amount: int = 1) -> bool:
        """Take it if it is there at once; return whether it was."""
        amount = min(amount, self._each)
        if self._waiting or not self._has_room(client, amount) or not self._is_free(amount):
            return False
        self._hold(client, amount)
        return True

    async def wait(self, client: str, amount: int = 1) -> None:
        """Wait until it is this client's turn, and take it."""
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
        """Give back what was taken, or waited for."""
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
        """Give what is free to those who wait, to each client in turn."""
        while (client := self._next()) is not None:
            waiting = self._waiting.pop(client)
            amount, turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting
            self._hold(client, amount)
            turn.set_result(None)

    def _next(self) -> str | None:
        """Whose turn it is, if there is enough for it. Nobody overtakes a client that has not had its share."""
        for client, waiting in list(self._waiting.items()):
            # One that is cancelled has yet to run, and to leave.
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
