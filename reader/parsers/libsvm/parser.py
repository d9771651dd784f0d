"""LIBSVM text to rows, in bounded memory. The grammar stands above `parse_lines` in `libsvm_kernel`."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.libsvm import libsvm_kernel as kernel
from streamsvm.reader.parsers.libsvm.fault import WEIGHTED
from streamsvm.reader.parsers.libsvm.lines import LineReader, bad_byte
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.sniff import HEAD_BYTES, refuse_foreign
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Rows

# One after the other: to match all that comes before the first row at once takes memory for each line of it.
_COMMENT_OR_ROW = re.compile(rb"#[^\n]*|(?P<row>[^ \t\r\n#]+)")
PART_BYTES = 128 << 10  # less text is not worth a thread


# Under which names the manifest has what the kernel counts.
_COUNTERS = {
    "explicit_zeros": kernel.ZEROS, "empty_rows": kernel.EMPTY, "blank_lines": kernel.BLANK,
    "comment_lines": kernel.COMMENT,
}  # fmt: skip


class LibsvmParser:
    """Reads one text, given in pieces of any size, and counts what it met.

    Rows have weights if the first does: it begins with label:weight. weighted: False: none is expected, so that rows
    without labels are told.

    index_base: "auto" or the least index there may be, 0 or 1. Indices are passed on as they are in the text.
    threads: how many read at once, each a part of the text in memory; what they find does not depend on it.
    skip: whether rows that cannot be read are left out and counted.
    window_bytes: text in memory at first; a longer line makes it grow. part_bytes: least text for a thread.

    index_base      0 or 1: as given, else 0 if there was an index 0
    rows, nnz       rows and values given out
    counters        explicit_zeros: pairs left out because their value is zero as float32; empty_rows: of a label only;
                    blank_lines: of blanks only; comment_lines: of a comment only
    max_index, min_index  over every pair, explicit zeros too; None before the first
    had_bom         whether the text began with a UTF-8 byte order mark
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
        part_bytes: int = PART_BYTES,
    ) -> None:
        if index_base not in ("auto", 0, 1):
            raise ValueError(f"index_base is 'auto', 0 or 1, not {index_base!r}")
        self.limits = limits or Limits()
        self.had_bom = False
        self._window = TextWindow(self.limits.max_line_bytes, max(window_bytes, 2 * HEAD_BYTES))
        self._index_base = index_base
        self._part_bytes = part_bytes
        self._started, self._weights_settled, self._is_weighted = False, not weighted, False
        lowest = 1 if index_base == 1 else 0
        features = min(self.limits.max_features, kernel.INDEX_LIMIT)
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
        """Whether rows have weights, as far as it has been read."""
        return self._is_weighted

    def expect_weights(self) -> None:
        """Rows have weights, whatever the first one says."""
        self._weights_settled = self._is_weighted = True
        for reader in self._readers:
            reader.expect_weights()

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """The rows in batches of up to about 4 MiB of text, each in arrays of its own.

        InputError at the first fault of the text; the rows shortly before it may not have been given out.
        """
        window = self._window
        with ThreadPoolExecutor(len(self._readers)) as pool:
            for chunk in chunks:
                rest = memoryview(chunk)
                while rest:
                    rest = rest[window.take(rest) :]
                    if window.full:
                        yield from self._read_lines(pool)
                        window.make_room(sum(reader.lines for reader in self._readers))
            stray_return = window.end_last_line()
            yield from self._read_lines(pool)
        if stray_return:
            raise bad_byte(window, window.filled - 2)
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row" + " that can be read" * bool(self.rejected.rows))

    def _read_lines(self, pool: Executor) -> Iterator[Rows]:
        window = self._window
        if not self._started:
            self._started = True
            self.had_bom = window.skip_mark()
            refuse_foreign(bytes(window.buffer[window.begin : min(window.begin + HEAD_BYTES, window.filled)]))
        end = window.lines_end()
        self._look_for_weights(end)
        borders = self._borders(window.begin, end)
        readers = self._readers[: len(borders) - 1]
        # All begin at once; what they find is taken in the order of the text.
        parts = zip(readers, borders[:-1], borders[1:], strict=True)
        begun = [pool.submit(reader.start, first, last) for reader, first, last in parts]
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
        """In the first row of all."""
        if self._weights_settled:
            return
        found = _COMMENT_OR_ROW.finditer(self._window.buffer, self._window.begin, end)
        first = next((match["row"] for match in found if match["row"]), None)
        if first is not None:
            self._weights_settled = True
            if WEIGHTED.fullmatch(first):
                self.expect_weights()

    def _borders(self, begin: int, end: int) -> list[int]:
        """Offsets between the parts into which the lines are divided, with both ends."""
        count = min(len(self._readers), max((end - begin) // self._part_bytes, 1))
        middle = [begin + (end - begin) * k // count for k in range(1, count)]
        inner = {self._window.buffer.index(b"\n", place, end) + 1 for place in middle}
        return sorted({begin, end} | inner)
