"""Documents that are in memory, as rows: see `text_kernel`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText
from streamsvm.reader.parsers.text.options import as_input
from streamsvm.storage.rows.csr import Rows

_BATCH_BYTES = 4 << 20


class DocumentRows(HashedText):
    """Rows of texts, without labels, made as `input_` says (Manifest.input); any text may have line feeds in it."""

    def __init__(self, input_: Mapping[str, Any]) -> None:
        options = as_input(InputOptions("text"), dict(input_))
        super().__init__(options, Limits(max_features=1 << 31), labelled=False)

    def rows_of(self, texts: Sequence[str]) -> Iterator[Rows]:
        """In batches. InputError not_text, whose line is the number of the text."""
        rest, first = iter(texts), 1
        while some := self._some(rest, first):
            ends = np.cumsum([len(text) for text in some])
            spans = np.column_stack([ends - [len(text) for text in some], ends])
            places = np.repeat(np.arange(first, first + len(some))[:, np.newaxis], 4, axis=1)
            yield from self.give(Documents(b"".join(some) + b"\n", spans, places), {}, _fault)
            first += len(some)

    def _some(self, texts: Iterator[str], first: int) -> list[bytes]:
        """The next few in UTF-8; the first has this number."""
        some: list[bytes] = []
        size = 0
        while size < _BATCH_BYTES and (found := list(islice(texts, 1))):
            try:
                some.append(found[0].encode())
            except UnicodeEncodeError:
                raise _fault(first + len(some), "not_text", "the document has half a surrogate pair") from None
            size += len(some[-1])
        return some


def _fault(number: int, code: str, message: str) -> InputError:
    return InputError(code, message, line=number)
