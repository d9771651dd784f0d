"""Rows that are left out because they cannot be read."""

from collections.abc import Callable

from streamsvm.reader.errors import InputError

MOST_SHOWN = 10


class Rejected:
    """Raises a row's fault, or with `skip` counts the row.

    rows    left out so far
    first   faults of the first few of them, in the order of the input
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows = 0
        self.first: list[InputError] = []

    def add(self, fault: Callable[[], InputError]) -> None:
        """A row that cannot be read; `fault` is only called if it is to be known: to find its line takes a while."""
        if not self.skip:
            raise fault()
        self.rows += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(fault())

    def join(self, others: "list[Rejected]") -> "Rejected":
        """These and those of others, as one."""
        joined = Rejected(self.skip)
        parts = [self, *others]
        joined.rows = sum(part.rows for part in parts)
        joined.first = sorted((fault for part in parts for fault in part.first), key=lambda fault: fault.line or 0)
        del joined.first[MOST_SHOWN:]
        return joined
