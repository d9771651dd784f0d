"""Turns documents in memory into rows; `words_kernel` defines their features."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, one_text
from streamsvm.reader.parsers.text.options import as_input
from streamsvm.storage.rows.csr import Rows

_BATCH_BYTES = 4 << 20


class DocumentRows(HashedText):
    """Makes rows without labels of texts, which may have line feeds, as `input_` (Manifest.input) says."""

    def __init__(self, input_: Mapping[str, Any]) -> None:
        options = as_input(InputOptions("text"), dict(input_))
        super().__init__(options, Limits(max_features=1 << 31), labelled=False)

    def rows_of(self, texts: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows of texts in batches. InputError not_text, whose line is the number of the text."""
        rest, first = iter(texts), 1
        while batch := self._batch(rest, first):
            places = np.repeat(np.arange(first, first + len(batch))[:, np.newaxis], 4, axis=1)
            yield from self.give(Documents(*one_text(batch), places), {}, _fault)
            first += len(batch)

    def _batch(self, texts: Iterator[str], first: int) -> list[bytes]:
        """The next texts in UTF-8, at least _BATCH_BYTES if there are as many; `first` is the first one's number."""
        batch: list[bytes] = []
        size = 0
        while size < _BATCH_BYTES and (text := next(texts, None)) is not None:
            try:
                batch.append(text.encode())
            except UnicodeEncodeError:
                raise _fault(first + len(batch), "not_text", "the document has half a surrogate pair") from None
            size += len(batch[-1])
        return batch


def _fault(number: int, code: str, message: str) -> InputError:
    return InputError(code, message, line=number)
