"""The base of the parsers of documents, which are lines or a column of a table; their options in Manifest.input."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import TABLES, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.tables.columns import not_filled_in
from streamsvm.reader.parsers.tables.fields import field_fault, is_missing, label_type, text_fault
from streamsvm.reader.parsers.tables.matching import Beside, ToPredict
from streamsvm.reader.parsers.text.grams_kernel import CHARS, CHARS_OF_WORDS, WORDS, Grams, hard_characters
from streamsvm.reader.parsers.text.hasher import FirstWords, HashedDocuments, TextHasher
from streamsvm.reader.parsers.values import LabelNames, exact_fault, groups_of
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.machine.thread_work import pool_of, work_ahead
from streamsvm.storage.rows.csr import Array, Rows

Fault = tuple[str, str]  # code, message
PlacedFault = tuple[int, str, str]  # place (an offset, line or cell of the input), code, message

ANALYZERS = {"word": WORDS, "char": CHARS, "char_wb": CHARS_OF_WORDS}
N_FEATURES = 1 << 20
MOST_GRAMS = 16
# Options that only documents have.
OF_TEXT = frozenset({"analyzer", "ngram_range", "alternate_sign", "lowercase", "on_bad_text"})
PIECE_BYTES = 256 << 10  # of documents that a thread hashes at a time


def input_of(options: InputOptions) -> dict[str, Any]:
    """Return Manifest.input of a dataset of documents. Raises InputError bad_ngram_range, too_many_features."""
    n_features = options.n_features or N_FEATURES
    if n_features >= 1 << 31:
        raise InputError("too_many_features", "documents are hashed to fewer than 2147483648 features")
    columns = {name: each for name in ("text_column", "label_column") if (each := getattr(options, name)) is not None}
    return {
        "format": "text",
        "n_features": n_features,
        "analyzer": options.analyzer or "word",
        "ngram_range": list(_ngram_range("1,1" if options.ngram_range is None else options.ngram_range)),
        "alternate_sign": options.alternate_sign != "no",
        "lowercase": options.lowercase != "no",
        **columns,
    }


def grams_of(input_: dict[str, Any]) -> Grams:
    """Return the kernel's parameters for a dataset with this `input`."""
    least, most = input_["ngram_range"]
    analyzer = ANALYZERS[input_["analyzer"]]
    return Grams(analyzer, least, most, input_["n_features"], input_["alternate_sign"], input_["lowercase"])


def as_input(options: InputOptions, input_: dict[str, Any]) -> InputOptions:
    """Return the options for documents that must fit a dataset with this `input`. Raises InputError option_unused."""
    settled: dict[str, Any] = {
        "n_features": input_["n_features"],
        "analyzer": input_["analyzer"],
        "ngram_range": ",".join(map(str, input_["ngram_range"])),
        "alternate_sign": "yes" if input_["alternate_sign"] else "no",
        "lowercase": "yes" if input_["lowercase"] else "no",
    }
    for name, value in settled.items():
        option = getattr(options, name)
        if name == "ngram_range" and option is not None:
            option = ",".join(map(str, _ngram_range(option)))
        if option not in (None, value):
            raise InputError("option_unused", f"{name} is {value} for all documents of this dataset")
    if options.format not in ("auto", "text", *TABLES):
        raise InputError("option_unused", f"this dataset is of documents, {options.format} has none")
    return replace(options, **settled)


def _ngram_range(text: str) -> tuple[int, int]:
    numbers = [number.strip() for number in text.split(",")]
    if len(numbers) == 2 and all(number.isdecimal() and number.isascii() and len(number) < 3 for number in numbers):
        least, most = map(int, numbers)
        if 1 <= least <= most <= MOST_GRAMS:
            return least, most
    raise InputError("bad_ngram_range", f"ngram_range must be two integers from 1 to {MOST_GRAMS}, not {text[:20]!r}")


class Documents(NamedTuple):
    """A batch of documents, with their labels, weights and groups; these are () if the input has none.

    text    bytes or a buffer, up to 2**31 bytes, with one more byte behind the last document
    spans   (n, 2) int64: begin and end of each document in `text`
    places  (n, 4) int64: where each document, label, weight and group stands in the input, see `PlacedFault`
    """

    text: Any
    spans: Array
    places: Array
    labels: Sequence[bytes] = ()
    weights: Sequence[bytes] = ()
    groups: Sequence[bytes] = ()

    @property
    def extent(self) -> tuple[int, int]:
        """The offsets in `text` at which the first document begins and the last one ends."""
        return int(self.spans[:, 0].min(initial=len(self.text))), int(self.spans[:, 1].max(initial=0))

    def select(self, rows: Array) -> "Documents":
        """Return the documents at the indices `rows` (m,)."""
        numbers = rows.tolist()
        beside = ([column[k] for k in numbers] if column else () for column in (self.labels, self.weights, self.groups))
        return Documents(self.text, self.spans[rows], self.places[rows], *beside)


def one_text(documents: Sequence[bytes]) -> tuple[bytes, Array]:
    """Return documents as `text` and `spans` of `Documents`."""
    ends = np.cumsum([len(document) for document in documents])
    return b"".join(documents) + b"\n", np.column_stack([ends - [len(document) for document in documents], ends])


class HashedText(Parser):
    """Hashes documents to rows, which it counts. Documents without labels have NaN."""

    def __init__(
        self,
        options: InputOptions,
        limits: InputLimits,
        names: LabelNames | None = None,
        threads: int = 1,
        to_predict: ToPredict | None = None,
    ) -> None:
        super().__init__(options, limits, 0, names, to_predict)
        self.index_base = 0
        self.input = input_of(options)
        self._grams = grams_of(self.input)
        self.set_features(self._grams.n_features)
        self.beside = to_predict.beside if to_predict else Beside()
        self._lowercase = self._grams.lowercase
        self._threads = threads
        self._hashers = self._new_hashers(notes=False)
        if to_predict is None:
            self.note_words()

    def note_words(self) -> None:
        self.words = FirstWords(self._grams.n_features)
        self._hashers = self._new_hashers(notes=True)

    def _new_hashers(self, notes: bool) -> SimpleQueue[TextHasher]:
        hashers: SimpleQueue[TextHasher] = SimpleQueue()
        for _ in range(self._threads):
            hashers.put(TextHasher(self._grams, notes))
        return hashers

    def know(self, words: FeatureWords) -> None:
        if self.words is not None:
            self.words.put(words.features, words.signs, list(words.words))

    def rows_of_documents(
        self, documents: Documents, faults: dict[int, PlacedFault], fault_at: Callable[[int, str, str], InputError]
    ) -> Iterator[Rows]:
        """Yield the rows of the documents without a fault; reject the others.

        faults    index of a document -> the fault that the caller has found in it
        fault_at  function (place, code, message) of a fault -> its error
        """
        begin, end = documents.extent
        is_ascii = bytes(memoryview(documents.text)[begin:end]).isascii()  # then it is UTF-8, and no character is hard
        faults = {**self._faults(documents, faults, is_ascii), **faults}
        for row in sorted(faults):
            self.rejected.add(partial(_error, fault_at, faults[row]))
        if faults:
            documents = documents.select(np.setdiff1d(np.arange(len(documents.spans)), list(faults)))
        if not len(documents.spans):
            return
        label = self._label_values(documents.labels) if documents.labels else np.full(len(documents.spans), np.nan)
        weight = _numbers(documents.weights) if documents.weights else None
        group = groups_of(documents.groups) if documents.groups else None
        for first, hashed in self._hashed(documents, is_ascii):
            begin, end = first + hashed.first, first + hashed.first + len(hashed.indptr) - 1
            if self.words is not None:
                self.words.add(hashed.notes)
            rows = Rows(
                label[begin:end], hashed.indptr, hashed.indices, hashed.values,
                None if weight is None else weight[begin:end], None if group is None else group[begin:end],
            )  # fmt: skip
            yield self.give(rows)

    def _faults(self, documents: Documents, earlier: dict[int, PlacedFault], is_ascii: bool) -> dict[int, PlacedFault]:
        """Return the faults of documents, labels, weights, groups. Rows in `earlier` do not set the type of labels."""
        faults: dict[int, PlacedFault] = {}
        if self._options.on_bad_text == "error" and not is_ascii:
            for row, byte in _undecodable(documents):
                faults[row] = byte, "not_text", "the document is not UTF-8"
        if documents.labels and self.to_predict is None:
            labels = (label for row, label in enumerate(documents.labels) if row not in earlier)
            if self._names.type == "auto" and (first := next((each for each in labels if not is_missing(each)), None)):
                self._names.type = label_type(first)
        label_fault = _name_fault if self._names.type == "string" else _number_fault
        beside: tuple[tuple[int, Sequence[bytes], Callable[[bytes], Fault | None]], ...] = (
            (1, () if self.to_predict else documents.labels, label_fault),
            (2, documents.weights, partial(field_fault, kind="weight")),
            (3, documents.groups, text_fault),
        )
        for column, texts, fault_of in beside:
            found = {text: fault for text in set(texts) if (fault := fault_of(text)) is not None}
            for row, text in enumerate(texts if found else ()):
                if text in found:
                    faults[row] = int(documents.places[row, column]), *found[text]
        return faults

    def _label_values(self, labels: Sequence[bytes]) -> Array:
        if self.to_predict is not None:
            return self.to_predict.read(labels)
        if self._names.type == "string":
            return self._names.numbers([label.decode() for label in labels])
        return _numbers(labels)

    def _hashed(self, documents: Documents, is_ascii: bool) -> Iterator[tuple[int, HashedDocuments]]:
        """Yield (index at which a part of the batch begins, hashed documents of this part) in order."""
        text, spans = (documents.text, documents.spans) if is_ascii else self._readable(documents)
        begin, end = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
        data = np.frombuffer(text, np.uint8)
        pieces = list(pairwise(_borders(begin, end)))
        if len(pieces) == 1:
            yield from self._hash(0, data, begin, end, is_ascii)
            return
        tasks = (partial(self._hash, at, data, begin[at:last], end[at:last], is_ascii) for at, last in pieces)
        with pool_of(self._threads) as pool:
            yield from chain.from_iterable(work_ahead(tasks, pool, self._threads))

    def _hash(
        self, first: int, text: Array, begin: Array, end: Array, is_ascii: bool
    ) -> list[tuple[int, HashedDocuments]]:
        """Hash the part of a batch that begins at document `first`, on any thread. A hasher gets documents in order."""
        hasher = self._hashers.get()
        try:
            return [(first, hashed) for hashed in hasher.documents(text, begin, end, is_ascii)]
        finally:
            self._hashers.put(hasher)

    def _readable(self, documents: Documents) -> tuple[Any, Array]:
        """Return `text` and `spans` of the documents as the kernel can read them, see `_simple`."""
        undecodable = _undecodable(documents) if self._options.on_bad_text == "replace" else []
        is_hard = self._lowercase and any(documents.text.find(hard, *documents.extent) >= 0 for hard in _hard())
        if not undecodable and not is_hard:
            return documents.text, documents.spans
        spans, of_row = np.unique(documents.spans, axis=0, return_inverse=True)  # documents of a dictionary come again
        text, simple = one_text([self._simple(bytes(documents.text[first:last])) for first, last in spans.tolist()])
        return text, simple[of_row.ravel()]

    def _simple(self, document: bytes) -> bytes:
        """Return a document in valid UTF-8, and in lower case if the kernel cannot convert its characters itself."""
        if document.isascii():
            return document
        text = document.decode(errors="replace")
        is_hard = self._lowercase and any(hard in document for hard in _hard())
        return (text.lower() if is_hard else text).encode()


def _numbers(texts: Sequence[bytes]) -> Array:
    """Return (n,) float64: the numbers of labels or weights without a fault; each different text is read once."""
    numbers = {text: float(text) for text in set(texts)}
    return np.fromiter(map(numbers.__getitem__, texts), np.float64, len(texts))


def _error(fault_at: Callable[[int, str, str], InputError], fault: PlacedFault) -> InputError:
    return not_filled_in(fault_at(*fault))


def _number_fault(label: bytes) -> Fault | None:
    return field_fault(label, "label") or exact_fault(label)


def _name_fault(label: bytes) -> Fault | None:
    return ("bad_byte", "a byte 0x00 in a label") if b"\0" in label else text_fault(label)


@cache
def _hard() -> tuple[bytes, ...]:
    return tuple(character.encode() for character in hard_characters())


def _undecodable(documents: Documents) -> list[tuple[int, int]]:
    """Return the indices of the documents that are not UTF-8, each with the offset of its first bad byte."""
    text = documents.text
    if _bad_byte(text, *documents.extent) is None:
        return []
    bad_bytes = ((row, _bad_byte(text, first, last)) for row, (first, last) in enumerate(documents.spans.tolist()))
    return [(row, byte) for row, byte in bad_bytes if byte is not None]


def _bad_byte(text: Any, begin: int, end: int) -> int | None:
    try:
        str(memoryview(text)[begin:end], "utf-8")
    except UnicodeDecodeError as error:
        return begin + error.start
    return None


def _borders(begin: Array, end: Array) -> list[int]:
    """Return the indices of documents at which parts of about PIECE_BYTES begin, and the number of documents."""
    sizes = np.cumsum(end - begin + 1)
    inner = np.searchsorted(sizes, np.arange(PIECE_BYTES, int(sizes[-1]), PIECE_BYTES), "right")
    return sorted({0, len(begin), *inner.tolist()})
