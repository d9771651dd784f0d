"""Where files meet in one text: byte order marks go, and missing line feeds come. How a text begins."""

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


class First(NamedTuple):
    """What the first rows of all say.

    header       the line of names with its end; empty: there is none
    label_type   as InputOptions has it
    is_weighted  rows of LIBSVM text have weights
    """

    header: bytes
    label_type: str
    is_weighted: bool


def look_at(head: bytes, options: InputOptions, limits: Limits, scratch: Path) -> First:
    """At the first bytes of a text; what is wrong with them is found when they are read."""
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
    return First(header, names.type, isinstance(parser, LibsvmParser) and parser.is_weighted)


class Begun(NamedTuple):
    """A text without what was taken off its beginning: so many bytes."""

    rest: Iterator[bytes]
    bytes: int = 0


def without_mark(text: Iterator[bytes]) -> Begun:
    """A text without a byte order mark."""
    head = b""
    while len(head) < len(BYTE_ORDER_MARK) and (piece := next(text, None)) is not None:
        head += piece
    mark = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    return Begun(itertools.chain([head[mark:]], text), mark)


def first_line(text: Iterator[bytes], most_bytes: int) -> bytes:
    """The first line that is not blank, without a byte order mark. Empty: there is none."""
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
