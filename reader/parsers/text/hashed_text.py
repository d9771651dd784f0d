"""Makes rows of documents, which are lines or a column of a table; their options in Manifest.input."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain, pairwise
from queue import SimpleQueue
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import TABLES, InputOptions
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.fields import FieldBatch
from streamsvm.reader.parsers.tables.mixed import Made, OneColumn
from streamsvm.reader.parsers.text.grams_kernel import CHARS, CHARS_OF_WORDS, WORDS, Grams, hard_characters
from streamsvm.reader.parsers.text.hasher import FirstWords, HashedDocuments, TextHasher
from streamsvm.storage.machine.thread_work import pool_of, work_ahead
from streamsvm.storage.rows.csr import Array

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


class DocumentColumn(OneColumn):
    """Makes rows of documents: their n-grams, hashed and counted.

    threads  number of threads that hash
    words    the first n-gram that was hashed to each feature; None until `note_words` is called
    """

    def __init__(self, options: InputOptions, threads: int = 1) -> None:
        self.word_places: list[int] = []
        self.words: FirstWords | None = None
        self._input = input_of(options)
        self._grams = grams_of(self._input)
        self._replaces_bytes = options.on_bad_text == "replace"
        self._threads = threads
        self._hashers = self._new_hashers(notes=False)

    @property
    def n_features(self) -> int:
        return self._grams.n_features

    def note_words(self) -> None:
        """Fill `words` from now on."""
        self.words = FirstWords(self.n_features)
        self._hashers = self._new_hashers(notes=True)

    def _new_hashers(self, notes: bool) -> SimpleQueue[TextHasher]:
        hashers: SimpleQueue[TextHasher] = SimpleQueue()
        for _ in range(self._threads):
            hashers.put(TextHasher(self._grams, notes))
        return hashers

    def read(self, batch: FieldBatch, place: int) -> tuple[TextFields, Array]:
        """Return the documents of a batch, and (n,) bool: whether each is without a fault."""
        documents, missing = batch.documents(place)
        fit = ~missing
        is_checked = not (batch.is_text or self._replaces_bytes)
        if is_checked and not _is_ascii(documents) and _bad_byte(_whole(documents)) is not None:
            fit &= [_bad_byte(documents[row]) is None for row in range(len(documents))]
        return documents, fit

    def word_fault(self, document: bytes) -> tuple[str, str, int]:
        """Return the code, the message and the offset of the fault of a document that `read` found to have one."""
        byte = None if self._replaces_bytes else _bad_byte(document)
        if byte is None:
            return "missing_value", "a value is missing", 0
        return "not_text", "the document is not UTF-8", byte

    def make(self, documents: TextFields) -> Iterator[Made]:
        """Yield indptr, indices and values of the rows of documents without a fault, some rows at a time, in order."""
        for hashed in self._hashed(documents) if len(documents) else ():
            if self.words is not None:
                self.words.add(hashed.notes)
            yield hashed.indptr, hashed.indices, hashed.values

    def input_entries(self) -> dict[str, Any]:
        return self._input

    def _hashed(self, documents: TextFields) -> Iterator[HashedDocuments]:
        is_ascii = _is_ascii(documents)  # then it is UTF-8, and no character is hard
        documents = documents if is_ascii else self._readable(documents)
        begin, end = (np.ascontiguousarray(each, np.int64) for each in (documents.start, documents.stop))
        pieces = list(pairwise(_borders(begin, end)))
        tasks = (partial(self._hash, documents.text, begin[at:last], end[at:last], is_ascii) for at, last in pieces)
        if len(pieces) == 1:
            yield from next(tasks)()
            return
        with pool_of(self._threads) as pool:
            yield from chain.from_iterable(work_ahead(tasks, pool, self._threads))

    def _hash(self, text: Array, begin: Array, end: Array, is_ascii: bool) -> list[HashedDocuments]:
        """Hash a part of a batch, on any thread. A hasher gets documents in order."""
        hasher = self._hashers.get()
        try:
            return list(hasher.documents(text, begin, end, is_ascii))
        finally:
            self._hashers.put(hasher)

    def _readable(self, documents: TextFields) -> TextFields:
        """Return the documents as the kernel can read them, see `_simple`."""
        text = _whole(documents)
        is_replaced = self._replaces_bytes and _bad_byte(text) is not None
        if not (is_replaced or self._is_hard(text)):
            return documents
        different, of_row = documents.distinct()
        simple = TextFields.of_bytes([self._simple(different[row]) for row in range(len(different))])
        return simple.select(of_row)

    def _simple(self, document: bytes) -> bytes:
        """Return a document in valid UTF-8, and in lower case if the kernel cannot convert its characters itself."""
        if document.isascii():
            return document
        text = document.decode(errors="replace")
        return (text.lower() if self._is_hard(document) else text).encode()

    def _is_hard(self, text: bytes) -> bool:
        return self._grams.lowercase and any(hard in text for hard in _hard())


@cache
def _hard() -> tuple[bytes, ...]:
    return tuple(character.encode() for character in hard_characters())


def _extent(documents: TextFields) -> Array:
    """The text from the first byte of all documents to the last."""
    return documents.text[int(documents.start.min(initial=len(documents.text))) : int(documents.stop.max(initial=0))]


def _whole(documents: TextFields) -> bytes:
    return _extent(documents).tobytes()


def _is_ascii(documents: TextFields) -> bool:
    return bool(_extent(documents).max(initial=0) < 128)


def _bad_byte(text: bytes) -> int | None:
    """Return the offset of the first byte that is no UTF-8, or None."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _borders(begin: Array, end: Array) -> list[int]:
    """Return the indices of documents at which parts of about PIECE_BYTES begin, and the number of documents."""
    sizes = np.cumsum(end - begin + 1)
    inner = np.searchsorted(sizes, np.arange(PIECE_BYTES, int(sizes[-1]), PIECE_BYTES), "right")
    return sorted({0, len(begin), *inner.tolist()})
