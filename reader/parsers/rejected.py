"""Counts rows that are left out because they cannot be read."""

from collections.abc import Callable

from streamsvm.reader.errors import InputError

MOST_SHOWN = 10


class Rejected:
    """Raises a row's fault, or with `skip` counts the row.

    rows   number of rows left out so far
    first  faults of the first MOST_SHOWN of them, in the order of the input
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows = 0
        self.first: list[InputError] = []

    def add(self, fault: Callable[[], InputError]) -> None:
        """Reject a row. `fault` makes its error, and is called only if that is raised or shown: its line costs time."""
        if not self.skip:
            raise fault()
        self.rows += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(fault())

    def join(self, others: "list[Rejected]") -> "Rejected":
        """Add up the rejected rows of several parsers; keep the first faults by line number."""
        joined = Rejected(self.skip)
        all_ = [self, *others]
        joined.rows = sum(each.rows for each in all_)
        joined.first = sorted((fault for each in all_ for fault in each.first), key=lambda fault: fault.line or 0)
        del joined.first[MOST_SHOWN:]
        return joined
