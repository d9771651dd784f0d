"""Answers requests of Newton steps about the rows of a shard; the coordinator adds up the answers of all machines."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import NEWTON_REPLY, NEWTON_REQUEST
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.requests import Figures, Looked, Reply, Request, Slope
from streamsvm.trainer.newton.scans import InOrder, Interrupted, Scans, uninterrupted
from streamsvm.trainer.newton.system import TooLarge
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.sweeps.sweep import ALONE, Threads


class ShardRows:
    """`answer` each request, then `forget` what Newton steps have kept of each row.

    alpha (n_rows, width) of the trainer: `settings.shards` times that of the problem, as C is. With sigma so many
    times what it is, m stays the same, and all sums are as many times those of the problem.
    """

    def __init__(self, directory: Path, settings: TrainerSettings, shared: SharedState, alpha: Array) -> None:
        self._directory, self._settings, self._shared, self._alpha = directory, settings, shared, alpha
        self._store: Callable[[], InOrder | None] = lambda: None
        self._threads = ALONE
        self._rows: OwnRows | None = None

    def rows_from(self, store: Callable[[], InOrder | None], threads: Threads) -> None:
        """Set the source of rows: `store` returns the store that has all rows, if there is one."""
        self._store, self._threads = store, threads

    @property
    def equations(self) -> int:
        """Most equations that a system may have; -1: not all rows are at hand."""
        return self._settings.newton_equations if self._store() is not None else -1

    def answer(self) -> None:
        """Answer the request that has come, if there is one, by a pickled Reply, or TooLarge if a system is.

        The reply is empty if the store, or room for it, fails.
        """
        asked, reply = self._directory / NEWTON_REQUEST, b""
        if asked.exists():
            request: Request = pickle.loads(asked.read_bytes())
            asked.unlink()
            reply = self._reply(request)
        path = self._directory / NEWTON_REPLY
        try:
            path.write_bytes(reply)
        except OSError:
            path.write_bytes(b"")

    def forget(self) -> None:
        """Free what is kept of each row."""
        self._rows = None

    def _reply(self, request: Request) -> bytes:
        store, settings = self._store(), self._settings
        if store is None:
            return b""
        if request.begins or self._rows is None:
            scans = Scans(
                store, len(self._alpha), settings.visited, self._threads, partial(uninterrupted, self._shared)
            )
            self._rows = OwnRows(settings.tasks, scans, self._alpha, settings.width)
        try:
            found = self._rows.answer(_times(request, settings.shards))
        except Interrupted:
            return b""
        except TooLarge as error:
            return pickle.dumps(error)
        return pickle.dumps(_divided(found, settings.shards), pickle.HIGHEST_PROTOCOL)


def _times(request: Request, shards: int) -> Request:
    """Multiply each sigma of the request by the number of shards, as the shard's alpha is scaled."""
    return replace(
        request,
        centres={number: shards * sigma for number, sigma in request.centres.items()},
        sums={number: of._replace(sigma=shards * of.sigma) for number, of in request.sums.items()},
        looks={number: look._replace(sigma=shards * look.sigma) for number, look in request.looks.items()},
    )


def _divided(reply: Reply, shards: int) -> Reply:
    """Scale the sums of the reply back to the whole problem."""
    for system in reply.systems.values():
        system.scale(1.0 / shards)
    return replace(
        reply,
        greatest={number: C / shards for number, C in reply.greatest.items()},
        v=None if reply.v is None else reply.v / shards,
        looks={number: _looked(looked, shards) for number, looked in reply.looks.items()},
    )


def _looked(looked: Looked, shards: int) -> Looked:
    if isinstance(looked, Slope):
        return Slope(*(total / shards for total in looked))
    return tuple(_figures(each, shards) for each in looked)


def _figures(found: Figures, shards: int) -> Figures:
    return found._replace(
        losses=found.losses / shards,
        dual=found.dual / shards,
        alpha=found.alpha / shards,
        moved=found.moved / shards**2,
    )
