"""Reads the beginning of a text: what its first rows say of all rows, its line of names, its byte order mark."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.reader.parsers.text_window import BYTE_ORDER_MARK


class FirstRows(NamedTuple):
    """Properties of a whole text that its first rows decide.

    header       the line that names the columns, with its line feed; empty if there is none
    label_type   as InputOptions.label_type
    is_weighted  rows of LIBSVM text have weights
    """

    header: bytes
    label_type: str
    is_weighted: bool


def read_first_rows(head: bytes, options: InputOptions, limits: Limits, scratch: Path) -> FirstRows:
    """Parse the first bytes of a text. Faults in them are passed over here: ingest reports them later."""
    whole = head[: head.rfind(b"\n") + 1] or head
    names = LabelNames(options.label_type)
    parser = None
    try:
        parser = open_parser(options, limits, names, 1, scratch)
        with closing(iter(parser.parse_chunks([whole]))) as rows:  # type: ignore[type-var]
            next(rows, None)
    except InputError:
        pass
    has_names = isinstance(parser, CsvParser | TextTableParser) and parser.has_names
    header = first_line(iter([whole]), len(whole)) if has_names else b""
    return FirstRows(header, names.type, isinstance(parser, LibsvmParser) and parser.is_weighted)


def without_mark(text: Iterator[bytes]) -> tuple[Iterator[bytes], int]:
    """The text without its byte order mark, and the length of the mark: 0 if there was none."""
    head = b""
    while len(head) < len(BYTE_ORDER_MARK) and (piece := next(text, None)) is not None:
        head += piece
    mark = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    return itertools.chain([head[mark:]], text), mark


def first_line(text: Iterator[bytes], most_bytes: int) -> bytes:
    """The first line that is not blank, without a byte order mark; empty if there is none."""
    head, begin = b"", 0
    while True:
        end = head.find(b"\n", begin)
        if end < 0:
            piece = next(text, None)
            if piece is not None and len(head) - begin <= most_bytes:
                head += piece
                continue
            end = len(head) - 1
        line = head[begin : end + 1].removeprefix(BYTE_ORDER_MARK)
        begin = end + 1
        if line.strip() or begin == len(head):
            return line
