"""Columns that a parser reads beside the rows, for a caller who wants them with the predictions."""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any

Column = Any  # (n,): a list of str, or an array of Arrow


class Beside:
    """Parsers `put` the columns of each batch of rows, the caller takes as many rows of them as it was given.

    names  of the columns, or their numbers, as InputOptions.label_column has them
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        self._batches: deque[list[Column]] = deque()

    def put(self, columns: list[Column]) -> None:
        """Add the columns, in the order of `names`, of the next rows."""
        if columns and len(columns[0]):
            self._batches.append(columns)

    def take(self, n_rows: int) -> list[Column]:
        """The columns of the next `n_rows` rows, which have been put."""
        parts: list[list[Column]] = []
        while n_rows and self.names:
            batch = self._batches.popleft()
            if len(batch[0]) > n_rows:
                self._batches.appendleft([column[n_rows:] for column in batch])
                batch = [column[:n_rows] for column in batch]
            n_rows -= len(batch[0])
            parts.append(batch)
        return [_joined(list(columns)) for columns in zip(*parts, strict=True)]


def _joined(parts: list[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], list):
        return list(chain.from_iterable(parts))
    import pyarrow  # noqa: PLC0415 - slow to import

    return pyarrow.concat_arrays(parts)
