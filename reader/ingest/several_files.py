"""Reads several files, each with a parser of its own, as one input: tables, whose columns have any order, and npz."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.inputs import FileRange
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.rejected import MOST_SHOWN, Rejected
from streamsvm.reader.parsers.text.hashed_text import HashedText
from streamsvm.storage.rows.csr import Array, Rows


class SeveralFiles:
    """Call `parse_files` once. The attributes are those of `Parser`, over all files read so far.

    open_one  makes the parser of a file
    """

    def __init__(self, open_one: Callable[[InputOptions], Any], options: InputOptions) -> None:
        self._open_one = open_one
        self._options = options
        self._last = open_one(options)
        self._warnings: list[dict[str, str]] = []
        self.last_values = 0, False  # of the first file, see `TableParser`
        self._counters: Counter[str] = Counter()
        self._max_indices: list[int] = []
        self.rows = self.nnz = 0
        self.rejected = Rejected(options.on_bad_row == "skip")

    @property
    def index_base(self) -> int:
        return self._last.index_base

    @property
    def max_index(self) -> int | None:
        return max(self._max_indices, default=None)

    @property
    def counters(self) -> dict[str, int]:
        return dict(self._counters) or self._last.counters

    @property
    def input(self) -> dict[str, Any] | None:
        return self._last.input

    @property
    def feature_places(self) -> Array | None:
        """The places of features in rows, see `MatrixParser`."""
        return getattr(self._last, "feature_places", None)

    @property
    def warnings(self) -> list[dict[str, str]]:
        """Warnings of the first file, see `TableParser`."""
        return self._warnings

    @property
    def words(self) -> Any:
        """The words of `HashedText`; None if files are not documents."""
        return self._last.words if isinstance(self._last, HashedText) else None

    def know(self, words: Any) -> None:
        """Take over the words of earlier documents, see `HashedText.know`."""
        if isinstance(self._last, HashedText):
            self._last.know(words)

    def parse_files(self, files: Iterable[FileRange]) -> Iterator[Rows]:
        """Yield the rows of files, or of ranges of them. InputError, with the file's name, for the first fault."""
        for number, file in enumerate(files):
            if number:
                self._open_next()
            try:
                for rows in self._last.parse_chunks(file.chunks):
                    self.rows += len(rows)
                    self.nnz += rows.nnz
                    yield rows
            except InputError as error:
                # Programs that write many files leave some of them empty.
                if error.code != "no_rows":
                    raise file.placed(error) from error.__cause__
            self._close(file)
        if self.rows == 0:
            raise InputError("no_rows", "the files have no row" + " that can be read" * bool(self.rejected.rows))

    def _open_next(self) -> None:
        before, options = self._last, self._options
        if before.input is not None and not isinstance(before, HashedText):
            options = replace(options, n_features=None, like=before.input)
        words = self.words
        self._last = self._open_one(options)
        if words is not None:
            self._last.know(words.in_order())

    def _close(self, file: FileRange) -> None:
        parser = self._last
        self._warnings += getattr(parser, "warnings", ())
        if not self.last_values[0]:
            self.last_values = getattr(parser, "last_values", (0, False))
        self._counters.update(parser.counters)  # `+=` would drop those that are 0
        if parser.max_index is not None:
            self._max_indices.append(parser.max_index)
        self.rejected.rows += parser.rejected.rows
        for fault in parser.rejected.first[: MOST_SHOWN - len(self.rejected.first)]:
            self.rejected.first.append(file.placed(fault))
