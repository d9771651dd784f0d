"""Remembers what was read from the store, for those who look many times a second."""

from collections.abc import Callable
from typing import Generic, TypeVar

from streamsvm.service.records.table import Records

T = TypeVar("T")


class LastRead(Generic[T]):
    """The last result of a query of the records: it is asked again only after a write of any process.

    Callers share the result, and must not change it.
    """

    def __init__(self, records: Records, query: Callable[[], T]) -> None:
        self._records, self._query = records, query
        self._change: tuple[int, ...] | None = None
        self._result: T

    def __call__(self) -> T:
        """The result as of now. Raises what the query raises; it is asked again then."""
        change = self._records.change()
        if change != self._change:
            self._result = self._query()
            self._change = change
        return self._result
