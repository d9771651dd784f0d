"""Turns FASTA into rows of packed strings, in bounded memory. `fasta_kernel` has the grammar above `pack_lines`."""

import math
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import fasta_kernel as kernel
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.tables.fields import is_text, text_fault
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.reader.parsers.values import NUMBER, LabelNames, exact_fault
from streamsvm.storage.rows.csr import BASES_A_WORD, INDEX, INDPTR, LABEL, VALUE, Array, Rows

ROWS_A_BATCH = 1 << 16
_FIRST_LABEL = re.compile(rb"^>(?:[^\n]*[^A-Za-z0-9_\n])?label=([^ \t,;|\r\n]+)", re.MULTILINE)
_FAULTS = {
    kernel.SHORT: ("string_length", "the sequence has {letters} letters, the first one {length}"),
    kernel.EMPTY: ("empty_sequence", "no sequence follows this header"),
    kernel.LONG: ("string_length", "the sequence has more than {most} letters, the number of the first one"),
    kernel.NO_HEADER: ("no_header", "a sequence stands before any header"),
    kernel.NOT_A_BASE: ("not_a_base", "{byte} is no base"),
    kernel.BAD_BYTE: ("bad_byte", "a byte 0x{code:02x} in a line of text"),
    kernel.LABEL_MISSING: ("label_missing", "the header has no label"),
    kernel.BAD_LABEL: ("bad_label", "label {label} is not a finite number"),
    kernel.LINE_TOO_LONG: ("line_too_long", ""),
}


class FastaParser(Parser):
    """A `Parser` of FASTA.

    labelled  False: headers need no labels; a row gets NaN if its label is missing or no number. If the text does not
              begin with a header, each line is a string
    """

    window_bytes = WINDOW_BYTES

    def __init__(
        self, options: InputOptions, limits: InputLimits, names: LabelNames | None = None, *, labelled: bool = True
    ) -> None:
        super().__init__(options, limits, 0, names)
        self._window: TextWindow  # `parse_chunks` makes it
        self._labelled = labelled
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._state[kernel.LENGTH] = options.like["length"] if options.like else -1
        self._state[[kernel.MAX_LETTERS, kernel.MAX_LINE]] = limits.max_line_bytes
        self._label = np.empty(ROWS_A_BATCH, LABEL)
        self._token = np.full((ROWS_A_BATCH, 2), -1, np.int64)
        self._texts: list[str] = []
        self._words, self._values = np.empty(0, INDEX), np.empty(0, VALUE)

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        """`Manifest.input`: the length and alphabet that all later strings must have."""
        return string_input(int(self._state[kernel.LENGTH]))

    @property
    def counters(self) -> dict[str, int]:
        """Counts of blank lines, and of letters that stand for more than one base."""
        blank_lines, unknown_letters = int(self._state[kernel.BLANK]), int(self._state[kernel.UNKNOWN])
        return {**super().counters, "blank_lines": blank_lines, "unknown_letters": unknown_letters}

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows in batches. Raises InputError at the first fault, unless faulty rows are skipped."""
        self._window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        for _ in self._window.fill(chunks):
            yield from self._read_lines()
        self._check(kernel.close_record(self._words, self._values, self._state))
        yield from self._taken()
        self.check_end()

    def _read_lines(self) -> Iterator[Rows]:
        window, state = self._window, self._state

        end = window.lines_end()
        self._settle(window.begin, end)
        state[kernel.POSITION] = window.begin
        while state[kernel.POSITION] < end:
            self._make_room(end)
            self._check(
                kernel.pack_lines(
                    window.text, end, kernel.CODES, self._label, self._token, self._words, self._values, state
                )
            )
            self._take_texts()
            yield from self._taken()
        window.begin = end
        window.check_tail()

    def _settle(self, begin: int, end: int) -> None:
        """Set the type of labels, and whether strings have headers, by the lines between the offsets begin and end."""
        state, buffer = self._state, self._window.buffer
        if not self._labelled:
            state[kernel.LABELS] = kernel.WANTED
            if state[kernel.RECORD] == kernel.BEFORE and self.rows == 0:
                first = bytes(buffer[begin:end]).lstrip()[:1]
                state[kernel.RECORD] = kernel.PLAIN if first and first != b">" else kernel.BEFORE
            return
        if self._names.type == "auto":
            match = _FIRST_LABEL.search(buffer, begin, end)
            if match is not None:
                self._names.type = "string" if is_text(match[1]) else "number"
        state[kernel.LABELS] = kernel.TEXTS if self._names.type == "string" else kernel.NUMBERS

    def _make_room(self, end: int) -> None:
        state = self._state
        room = state[kernel.PLACE] + (end - state[kernel.POSITION]) // BASES_A_WORD + ROWS_A_BATCH + 1
        if len(self._words) < room:
            self._words, self._values = (
                np.concatenate((column[: state[kernel.PLACE]], np.empty(room - state[kernel.PLACE], column.dtype)))
                for column in (self._words, self._values)
            )

    def _taken(self) -> Iterator[Rows]:
        """Yield the complete rows, and move the unfinished row to the front of the arrays."""
        state = self._state
        n_rows, place = int(state[kernel.ROWS]), int(state[kernel.PLACE])
        if n_rows == 0:
            return
        length = int(state[kernel.LENGTH])
        used = n_rows * kernel.words_of(length)
        label = self._names.numbers(self._texts[:n_rows]) if self._texts else self._label[:n_rows].copy()
        indptr = np.arange(len(label) + 1, dtype=INDPTR) * (used // n_rows)
        rows = Rows(label, indptr, self._words[:used].copy(), self._values[:used].copy())
        if state[kernel.RECORD] == kernel.OPEN:
            self._words[: place - used], self._values[: place - used] = (
                self._words[used:place].copy(),
                self._values[used:place].copy(),
            )
            self._label[0], self._token[0] = self._label[n_rows], self._token[n_rows]
            state[kernel.PLACE] -= used
        else:
            state[kernel.PLACE] = 0
        del self._texts[:n_rows]
        state[kernel.ROWS] = 0
        self.set_features(kernel.words_of(length))
        yield self.give(rows)

    def _take_texts(self) -> None:
        """Copy labels that are strings out of their headers, while the window still has the headers."""
        state = self._state
        if state[kernel.LABELS] != kernel.TEXTS:
            return
        n_headers = int(state[kernel.ROWS] + (state[kernel.RECORD] == kernel.OPEN))
        for row in np.flatnonzero(self._token[:n_headers, 0] >= 0).tolist():
            self._texts[row : row + 1] = [self._token_at(row).decode()]
        self._token[:n_headers] = -1

    def _token_at(self, row: int) -> bytes:
        begin, end = self._token[row].tolist()
        return bytes(self._window.buffer[begin:end])

    def _check(self, outcome: int) -> None:
        """Read the label, or reject the record, at which the kernel stopped with `outcome`; move `state` behind it."""
        state = self._state
        if outcome == kernel.HARD_LABEL:
            fault = self._hard_label()
            if fault is None:
                state[kernel.RECORD] = kernel.OPEN
                self._to_next_line()
                return
            self.rejected.add(partial(self._window.error, int(state[kernel.TOKEN]), *fault))
        elif outcome >= kernel.SHORT:
            self.rejected.add(partial(self._fault, outcome))
        else:
            return
        is_over = outcome in (kernel.SHORT, kernel.EMPTY)
        if state[kernel.RECORD] == kernel.PLAIN:
            self._to_next_line()
        elif not is_over:
            state[kernel.RECORD] = kernel.LEFT_OUT
            self._to_next_line()

    def _to_next_line(self) -> None:
        state = self._state
        state[kernel.POSITION] = self._window.buffer.index(b"\n", int(state[kernel.POSITION])) + 1
        state[kernel.LINES] += 1

    def _hard_label(self) -> tuple[str, str] | None:
        """Read the label that the kernel could not read; return its fault, or None."""
        state = self._state
        row = int(state[kernel.ROWS])
        token = self._token_at(row)
        if state[kernel.LABELS] == kernel.TEXTS:
            return text_fault(token)
        number = float(token) if NUMBER.fullmatch(token) else math.nan
        if not math.isfinite(number) and state[kernel.LABELS] != kernel.WANTED:
            return "bad_label", f"label {excerpt(token)} is not a finite number"
        self._label[row] = number
        return exact_fault(token)

    def _fault(self, outcome: int) -> InputError:
        """Return the error for the token at which the kernel stopped."""
        state, window = self._state, self._window
        place = int(state[kernel.TOKEN])
        code, message = _FAULTS[outcome]
        length = int(state[kernel.LENGTH])
        byte = window.buffer[place]
        message = message.format(
            letters=state[kernel.LETTERS],
            length=length,
            most=length if length >= 0 else state[kernel.MAX_LETTERS],
            byte=excerpt(bytes([byte])),
            code=byte,
            label=excerpt(self._token_at(int(state[kernel.ROWS]))) if outcome == kernel.BAD_LABEL else "",
        )
        if outcome in (kernel.SHORT, kernel.EMPTY):
            # The record's lines may have left the window.
            return InputError(code, message, line=int(state[kernel.HEADER_LINE]), column=1)
        hint = "label_type=string if labels are strings" if outcome == kernel.BAD_LABEL else None
        error = window.error(place, code, message)
        error.hint = hint or error.hint
        return error


def string_input(length: int) -> dict[str, Any]:
    """Return `Manifest.input` of a dataset of strings of `length` bases."""
    return {"format": "fasta", "length": length, "alphabet": kernel.BASES}


def letters_of(words: Array, values: Array, length: int) -> str:
    """Return the string of a row, which has `length` letters, with N for each unknown base."""
    place = np.arange(BASES_A_WORD)
    base = words.astype(np.uint32)[:, None] >> (2 * place).astype(np.uint32) & 3
    is_unknown = (values.astype(np.int64) - 1)[:, None] >> place & 1
    letters = np.frombuffer(f"{kernel.BASES}N".encode(), np.uint8)[np.where(is_unknown, len(kernel.BASES), base)]
    return letters.reshape(-1)[:length].tobytes().decode()


def is_of_strings(input: dict[str, Any] | None) -> bool:
    """Return whether the rows of a dataset with this `input` are strings of bases."""
    return input is not None and input.get("format") == "fasta"
