"""What the parsers of documents have in common, whether a line is one or a column of a table has them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.groups import groups_of
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.text.characters import hard_characters
from streamsvm.reader.parsers.text.first_words import FirstWords
from streamsvm.reader.parsers.text.hasher import Hashed, TextHasher
from streamsvm.reader.parsers.text.labels import (
    group_faults,
    label_faults,
    label_values,
    settle_type,
    weight_faults,
    weight_values,
)
from streamsvm.reader.parsers.text.options import grams_of, input_of
from streamsvm.storage.blocks.feature_words import FeatureWords
from streamsvm.storage.rows.csr import Array, Rows

PlacedFault = tuple[int, str, str]  # place, code, message
PIECE_BYTES = 256 << 10  # of documents, hashed at a time


class Documents(NamedTuple):
    """Some documents: text[begin[k]:end[k]], and what stands beside them; a tuple is () where there is nothing.

    text    bytes, or what has them, of 2**31 at most, and one more
    spans   (n, 2) int64: begin and end
    places  (n, 4) int64: where each is and its label, weight and group are, for a fault to be told
    """

    text: Any
    spans: Array
    places: Array
    labels: Sequence[bytes] = ()
    weights: Sequence[bytes] = ()
    groups: Sequence[bytes] = ()

    def only(self, kept: Array) -> "Documents":
        """Those of these numbers (m,)."""
        rows = kept.tolist()
        beside = ([column[k] for k in rows] if column else () for column in (self.labels, self.weights, self.groups))
        return Documents(self.text, self.spans[kept], self.places[kept], *beside)


class HashedText:
    """Counts what is given out. Rows of documents without labels have nan.

    index_base, rows, nnz, max_index, counters, rejected, input   as in `Parser`
    words   the first n-gram that fell on each feature; None if that is not asked for
    """

    index_base = 0

    def __init__(
        self,
        options: InputOptions,
        limits: Limits,
        names: LabelNames | None = None,
        threads: int = 1,
        *,
        labelled: bool = True,
    ) -> None:
        self.input: dict[str, Any] | None = input_of(options)
        grams = grams_of(self.input)
        if grams.n_features > limits.max_features:
            raise InputError("too_many_features", f"{grams.n_features} features are beyond the limit")
        self.max_index: int | None = grams.n_features - 1
        self.rows = self.nnz = 0
        self.rejected = Rejected(options.on_bad_row == "skip")
        self.words = FirstWords(grams.n_features) if labelled else None
        self._options = options
        self._limits = limits
        self._names = names or LabelNames(options.label_type)
        self._labelled = labelled
        self._lowercase = grams.lowercase
        self._hashers: SimpleQueue[TextHasher] = SimpleQueue()
        for _ in range(threads):
            self._hashers.put(TextHasher(grams, notes=labelled))
        self._threads = threads
        self._empty_rows = self._blank_lines = 0

    def know(self, words: FeatureWords) -> None:
        """Those of documents that were read before."""
        if self.words is not None:
            self.words.keep(words.features, words.signs, list(words.words))

    @property
    def counters(self) -> dict[str, int]:
        return {
            "explicit_zeros": 0,
            "empty_rows": self._empty_rows,
            "blank_lines": self._blank_lines,
            "comment_lines": 0,
        }

    def give(
        self, found: Documents, faults: dict[int, PlacedFault], fault_at: Callable[[int, str, str], InputError]
    ) -> Iterator[Rows]:
        """The rows of documents but those with a fault, which are told of; `fault_at(place, code, message)` is one."""
        is_ascii = _is_ascii(found)
        faults = {**self._faults(found, faults, is_ascii), **faults}
        for row in sorted(faults):
            self.rejected.add(partial(fault_at, *faults[row]))
        if faults:
            found = found.only(np.setdiff1d(np.arange(len(found.spans)), list(faults)))
        if not len(found.spans):
            return
        has_labels = bool(found.labels) and (self._labelled or self._names.type != "string")
        label = label_values(self._names, found.labels) if has_labels else np.full(len(found.spans), np.nan)
        weight = weight_values(found.weights) if found.weights else None
        group = groups_of(found.groups) if found.groups else None
        for first, part in self._hashed(found, is_ascii):
            begin, end = first + part.first, first + part.first + len(part.indptr) - 1
            self.rows += end - begin
            self.nnz += len(part.indices)
            self._empty_rows += int(np.count_nonzero(np.diff(part.indptr) == 0))
            if self.words is not None:
                self.words.add(part.notes)
            yield Rows(
                label[begin:end], part.indptr, part.indices, part.values,
                None if weight is None else weight[begin:end], None if group is None else group[begin:end],
            )  # fmt: skip

    def check_end(self) -> None:
        """InputError no_rows if there was none."""
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row" + " that can be read" * bool(self.rejected.rows))

    def _faults(self, found: Documents, known: dict[int, PlacedFault], is_ascii: bool) -> dict[int, PlacedFault]:
        """Of rows; of those that are known to have one, they mean nothing."""
        faults: dict[int, PlacedFault] = {}
        if self._options.on_bad_text == "error" and not is_ascii:
            for row, byte in _undecodable(found):
                faults[row] = byte, "not_text", "the document is not UTF-8"
        if found.labels:
            settle_type(self._names, [label for row, label in enumerate(found.labels) if row not in known])
        beside = (
            (1, found.labels, partial(label_faults, self._names)),
            (2, found.weights, weight_faults),
            (3, found.groups, group_faults),
        )
        for column, texts, faults_of in beside:
            for row, fault in faults_of(texts).items():
                faults[row] = int(found.places[row, column]), *fault
        return faults

    def _hashed(self, found: Documents, is_ascii: bool) -> Iterator[tuple[int, Hashed]]:
        """Rows in the order of the documents, with the number of the first document of their piece."""
        text, spans = (found.text, found.spans) if is_ascii else self._readable(found)
        begin, end = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
        data = np.frombuffer(text, np.uint8)
        pieces = list(pairwise(_borders(begin, end)))
        if len(pieces) == 1:
            yield from ((0, part) for part in self._hash(data, begin, end, is_ascii))
            return
        begun: deque[tuple[int, Future[list[Hashed]]]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            for first, last in pieces:
                if len(begun) > self._threads:
                    yield from _parts(*begun.popleft())
                begun.append((first, pool.submit(self._hash, data, begin[first:last], end[first:last], is_ascii)))
            while begun:
                yield from _parts(*begun.popleft())

    def _hash(self, text: Array, begin: Array, end: Array, is_ascii: bool) -> list[Hashed]:
        """On any thread. Pieces are begun in their order: each hasher sees its documents in that of the text."""
        hasher = self._hashers.get()
        try:
            return list(hasher.documents(text, begin, end, is_ascii))
        finally:
            self._hashers.put(hasher)

    def _readable(self, found: Documents) -> tuple[Any, Array]:
        """The text, valid and without hard characters, and where the documents are in it."""
        strange = _undecodable(found) if self._options.on_bad_text == "replace" else set()
        begin, end = int(found.spans[:, 0].min()), int(found.spans[:, 1].max())
        is_hard = self._lowercase and any(found.text.find(hard, begin, end) >= 0 for hard in _hard())
        if not strange and not is_hard:
            return found.text, found.spans
        documents = [bytes(found.text[first:last]) for first, last in found.spans.tolist()]
        texts = [self._simple(document) for document in documents]
        ends = np.cumsum([len(text) for text in texts])
        return b"".join(texts) + b"\n", np.column_stack([ends - [len(text) for text in texts], ends])

    def _simple(self, document: bytes) -> bytes:
        """The same document for the kernel: valid UTF-8, its hard characters in lower case."""
        if document.isascii():
            return document
        text = document.decode(errors="replace")
        is_hard = self._lowercase and any(hard in document for hard in _hard())
        return (text.lower() if is_hard else text).encode()


@cache
def _hard() -> tuple[bytes, ...]:
    return tuple(character.encode() for character in hard_characters())


def _is_ascii(found: Documents) -> bool:
    """Whether all bytes of the text with the documents are; then they are UTF-8, and no character is hard."""
    begin, end = int(found.spans[:, 0].min(initial=0)), int(found.spans[:, 1].max(initial=0))
    return bytes(memoryview(found.text)[begin:end]).isascii()


def _undecodable(found: Documents) -> list[tuple[int, int]]:
    """Numbers of documents that are not UTF-8, each with the place of the first byte that is wrong."""
    begin, end = int(found.spans[:, 0].min(initial=0)), int(found.spans[:, 1].max(initial=0))
    if _bad_byte(found.text, begin, end) is None:
        return []
    bytes_ = ((row, _bad_byte(found.text, first, last)) for row, (first, last) in enumerate(found.spans.tolist()))
    return [(row, byte) for row, byte in bytes_ if byte is not None]


def _bad_byte(text: Any, begin: int, end: int) -> int | None:
    try:
        str(memoryview(text)[begin:end], "utf-8")
    except UnicodeDecodeError as error:
        return begin + error.start
    return None


def _parts(first: int, begun: Future[list[Hashed]]) -> Iterator[tuple[int, Hashed]]:
    return ((first, part) for part in begun.result())


def _borders(begin: Array, end: Array) -> list[int]:
    """Numbers of documents between the pieces into which they are divided, with both ends."""
    sizes = np.cumsum(end - begin + 1)
    inner = np.searchsorted(sizes, np.arange(PIECE_BYTES, int(sizes[-1]), PIECE_BYTES), "right")
    return sorted({0, len(begin), *inner.tolist()})
