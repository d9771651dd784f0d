"""Finds the model that a reference means, many times a second: what was found stays known until the records change."""

from streamsvm.service.records.models import Reference, is_id
from streamsvm.service.records.store import Store

_MOST = 1000


class References:
    """The references that were looked up since the last change of the records."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # What was found, and the change of the records since which it holds: one value, for threads see both or none.
        self._known: tuple[tuple[int, ...], dict[str, Reference]] = (), {}

    def known(self, reference: str) -> Reference | None:
        """The model that a reference means, if that is known without a look at the records; an id always is."""
        if is_id(reference):
            return Reference(reference)
        since, known = self._known
        return known.get(reference) if self._store.change() == since else None

    def resolve(self, reference: str) -> Reference:
        """The model that a reference means. Raises `unknown_model`, `unknown_alias`."""
        if (found := self.known(reference)) is not None:
            return found
        change = self._store.change()
        found = self._store.resolve(reference)
        since, known = self._known
        if change != since or len(known) > _MOST:
            known = {}
            self._known = change, known
        known[reference] = found
        return found
