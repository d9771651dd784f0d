"""Finds the model that a reference means, many times a second: what was found stays known until names change."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.models import Reference, is_id
from streamsvm.service.records.store import Store

_MOST = 1000
# Names may change without a note: a crash can come between the two, and a store can be put into the place of another.
_UNNOTED_SECONDS = 1.0

Answer = Reference | Exception


class _Seen(NamedTuple):
    """References as the records had them at a moment; `mark` and `change` are of the moment before."""

    mark: int | None
    change: tuple[int, ...]
    at: float
    references: dict[str, Reference]


class References:
    """The references that were looked up since names changed.

    Look-ups that come while records are read share the next read: it begins after the last change that their clients
    know of, and a change costs one read however many predict.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._seen = _Seen(None, (), 0.0, {})
        self._asked: dict[str, asyncio.Future[Answer]] = {}  # by reference, for the next read
        self._reading: asyncio.Task | None = None
        store.names.note()

    def known(self, reference: str) -> Reference | None:
        """The model that a reference means, if that is known without a look at the records; an id always is."""
        if is_id(reference):
            return Reference(reference)
        found = self._seen.references.get(reference)
        return found if found is not None and (self._is_fresh() or self._is_unchanged()) else None

    async def find(self, reference: str) -> Reference:
        """The model that a reference means. Raises `unknown_model`, `unknown_alias`, sqlite3.Error."""
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
        """Whether no change of names was noted since."""
        mark = self._store.names.mark()
        return mark is not None and mark == self._seen.mark and self._clock() < self._seen.at + _UNNOTED_SECONDS

    def _is_unchanged(self) -> bool:
        return self._store.change() == self._seen.change

    def _begin(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._give_up)

    async def _read(self) -> None:
        """Answer what is asked until nothing is."""
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
        """Keep what was found, with what was found before if that holds."""
        if seen.mark == self._seen.mark and self._is_fresh() and len(self._seen.references) < _MOST:
            self._seen.references.update(seen.references)
        else:
            self._seen = seen

    def _give_up(self, reading: asyncio.Task) -> None:
        """Answer nobody any more if the event loop ends; else who asks now may wait for the next read already."""
        if reading.cancelled():
            asked, self._asked = self._asked, {}
            for answer in asked.values():
                answer.cancel()
