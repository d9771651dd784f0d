"""Finds the model that a reference means, many times a second: answers are cached until names of models change."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.models import Reference, is_id
from streamsvm.service.records.store import Store

_MOST = 1000
# `store.names` misses a change if a process crashes between the change and its note, or if another store replaces this.
_UNNOTED_SECONDS = 1.0

Answer = Reference | Exception


class _Seen(NamedTuple):
    """References as read from the records at time `at`; `mark` and `change` were read just before the references."""

    mark: int | None
    change: tuple[int, ...]
    at: float
    references: dict[str, Reference]


class References:
    """A cache of the references that were looked up since names last changed.

    Look-ups that come while records are read share the next read, which begins after every change that their clients
    know of. A change of names costs one read, however many clients predict.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._seen = _Seen(None, (), 0.0, {})
        self._asked: dict[str, asyncio.Future[Answer]] = {}  # by reference, for the next read
        self._reading: asyncio.Task | None = None
        store.names.note()

    def known(self, reference: str) -> Reference | None:
        """Return the model that a reference means if no record need be read for that, as for an id; else None."""
        if is_id(reference):
            return Reference(reference)
        found = self._seen.references.get(reference)
        return found if found is not None and (self._is_fresh() or self._store.change() == self._seen.change) else None

    async def find(self, reference: str) -> Reference:
        """Return the model that a reference means. Raises ServiceError unknown_model, unknown_alias; sqlite3.Error."""
        if (known := self.known(reference)) is not None:
            return known
        if reference not in self._asked:
            self._asked[reference] = asyncio.get_running_loop().create_future()
            self._begin()
        # A request that is cancelled must not cancel the look-up of others.
        answer = await asyncio.shield(self._asked[reference])
        if isinstance(answer, Reference):
            return answer
        raise answer

    def _is_fresh(self) -> bool:
        """Whether the last read is recent, and `store.names` shows no change of names since."""
        mark = self._store.names.mark()
        return mark is not None and mark == self._seen.mark and self._clock() < self._seen.at + _UNNOTED_SECONDS

    def _begin(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._give_up)

    async def _read(self) -> None:
        """Look up the references in `_asked` and answer their callers, until no reference is asked for."""
        while asked := self._asked:
            self._asked = {}
            try:
                # SQLite may wait for a writer: not in the event loop.
                seen, answers = await asyncio.to_thread(self._look_up, tuple(asked))
                self._note(seen)
            except Exception as error:
                answers = dict.fromkeys(asked, error)
            except BaseException:  # the event loop ends
                for answer in asked.values():
                    answer.cancel()
                raise
            for reference, answer in asked.items():
                answer.set_result(answers[reference])

    def _look_up(self, references: Iterable[str]) -> tuple[_Seen, dict[str, Answer]]:
        seen = _Seen(self._store.names.mark(), self._store.change(), self._clock(), {})
        answers = {reference: self._answer(reference) for reference in references}
        seen.references.update({name: found for name, found in answers.items() if isinstance(found, Reference)})
        return seen, answers

    def _answer(self, reference: str) -> Answer:
        try:
            return self._store.resolve(reference)
        except (ServiceError, sqlite3.Error) as error:
            return error

    def _note(self, seen: _Seen) -> None:
        """Keep the references found, in addition to the earlier ones if those still hold."""
        if seen.mark == self._seen.mark and self._is_fresh() and len(self._seen.references) < _MOST:
            self._seen.references.update(seen.references)
        else:
            self._seen = seen

    def _give_up(self, reading: asyncio.Task) -> None:
        """Cancel the waiting look-ups if the event loop has cancelled the read; else the next read answers them."""
        if reading.cancelled():
            asked, self._asked = self._asked, {}
            for answer in asked.values():
                answer.cancel()
