"""Turns LIBSVM text into rows, in bounded memory. `libsvm_kernel` has the grammar above `parse_lines`."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.libsvm import libsvm_kernel as kernel
from streamsvm.reader.parsers.libsvm.fault import WEIGHTED
from streamsvm.reader.parsers.libsvm.lines import LineReader, bad_byte
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.machine.pools import pool_of
from streamsvm.storage.rows.csr import Rows

# Matches one comment at a time: a pattern for all comments before the first row would take memory for each of them.
_COMMENT_OR_ROW = re.compile(rb"#[^\n]*|(?P<row>[^ \t\r\n#]+)")
RANGE_BYTES = 128 << 10  # less text is not worth a thread

# Names in the manifest of what the kernel counts.
_COUNTERS = {
    "explicit_zeros": kernel.ZEROS, "empty_rows": kernel.EMPTY, "blank_lines": kernel.BLANK,
    "comment_lines": kernel.COMMENT,
}  # fmt: skip


class LibsvmParser:
    """A `Parser` of LIBSVM text. Rows have weights if the first row begins with label:weight.

    Arguments:
    index_base    "auto", or the smallest index allowed, 0 or 1. Indices are passed on as they stand in the text
    threads       each reads a range of the text in memory; the rows do not depend on their number
    skip          True: rows that cannot be read are left out and counted
    weighted      False: rows have no weights, so that index:value without a label before it is a fault
    window_bytes  text in memory at first; the window grows for a longer line
    range_bytes   least text for a thread

    Attributes:
    index_base    0 or 1: the argument; with "auto" 0 if an index 0 occurred, else 1
    counters      explicit_zeros: pairs left out because their value is zero as float32; empty_rows: rows of a label
                  only; blank_lines: lines of blanks only; comment_lines: lines of a comment only
    max_index, min_index  over every pair, explicit zeros too; None before the first
    """

    input: dict[str, Any] | None = None

    def __init__(
        self,
        index_base: str | int = "auto",
        limits: Limits | None = None,
        threads: int = 1,
        *,
        skip: bool = False,
        weighted: bool = True,
        window_bytes: int = WINDOW_BYTES,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        if index_base not in ("auto", 0, 1):
            raise ValueError(f"index_base is 'auto', 0 or 1, not {index_base!r}")
        limits = limits or Limits()
        self._window = TextWindow(limits.max_line_bytes, window_bytes)
        self._index_base = index_base
        self._range_bytes = range_bytes
        self._weights_settled, self._is_weighted = not weighted, False
        lowest = 1 if index_base == 1 else 0
        features = min(limits.max_features, kernel.INDEX_LIMIT)
        self._readers = [LineReader(self._window, lowest, features, skip) for _ in range(threads)]

    @property
    def index_base(self) -> int:
        return int(self.min_index != 0) if self._index_base == "auto" else int(self._index_base)

    @property
    def rows(self) -> int:
        return sum(reader.rows for reader in self._readers)

    @property
    def nnz(self) -> int:
        return sum(reader.nnz for reader in self._readers)

    @property
    def counters(self) -> dict[str, int]:
        return {name: sum(int(reader.state[place]) for reader in self._readers) for name, place in _COUNTERS.items()}

    @property
    def rejected(self) -> Rejected:
        first, *others = (reader.rejected for reader in self._readers)
        return first.join(others)

    @property
    def max_index(self) -> int | None:
        index = max(int(reader.state[kernel.MAX_INDEX]) for reader in self._readers)
        return index if index >= 0 else None

    @property
    def min_index(self) -> int | None:
        index = min(int(reader.state[kernel.MIN_INDEX]) for reader in self._readers)
        return index if self.max_index is not None else None

    @property
    def is_weighted(self) -> bool:
        """Whether the rows read so far have weights."""
        return self._is_weighted

    def expect_weights(self) -> None:
        """Read rows as label:weight, whatever the first one says."""
        self._weights_settled = self._is_weighted = True
        for reader in self._readers:
            reader.expect_weights()

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows in batches of up to about 4 MiB of text, each in arrays of its own.

        InputError at the first fault of the text; the rows shortly before it may be missing.
        """
        window = self._window
        with pool_of(len(self._readers)) as pool:
            for _ in window.fill(chunks):
                yield from self._read_lines(pool)
        if window.ends_in_return:
            raise bad_byte(window, window.filled - 2)
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row" + " that can be read" * bool(self.rejected.rows))

    def _read_lines(self, pool: Executor) -> Iterator[Rows]:
        window = self._window
        end = window.lines_end()
        self._look_for_weights(end)
        borders = self._borders(window.begin, end)
        readers = self._readers[: len(borders) - 1]
        # All readers begin at once; their rows are taken in the order of the text.
        begun = [pool.submit(reader.start, *range_) for reader, range_ in zip(readers, pairwise(borders), strict=True)]
        for reader, future in zip(readers, begun, strict=True):
            batch = future.result()
            while True:
                if batch is not None:
                    yield batch
                if reader.at_end:
                    break
                batch = reader.read()
        window.begin = end
        window.check_tail()

    def _look_for_weights(self, end: int) -> None:
        """Settle by the first row of the text whether rows have weights."""
        if self._weights_settled:
            return
        matches = _COMMENT_OR_ROW.finditer(self._window.buffer, self._window.begin, end)
        first = next((match["row"] for match in matches if match["row"]), None)
        if first is not None:
            self._weights_settled = True
            if WEIGHTED.fullmatch(first):
                self.expect_weights()

    def _borders(self, begin: int, end: int) -> list[int]:
        """Offsets between the ranges that the threads read, `begin` and `end` included."""
        count = min(len(self._readers), max((end - begin) // self._range_bytes, 1))
        middle = [begin + (end - begin) * k // count for k in range(1, count)]
        inner = {self._window.buffer.index(b"\n", place, end) + 1 for place in middle}
        return sorted({begin, end} | inner)
