"""Rewrites the text of a table as the parser of CSV reads it: UTF-8, one character between fields, decimal points."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import PEEK_BYTES

_NO_ENCODING = "leave encoding out if the text is in UTF-8, else write it in UTF-8"
_BLANKS = re.compile(rb'("[^"\n]*")|[ \t]+')
_ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)
_DELIMITER = re.compile(rb"[,;|\t:]")
# A number with a comma, which fills a field.
_DECIMAL = re.compile(rb'((?:^|[;|\t"])[ ]*[+-]?\d*),(?=\d+(?:[eE][+-]?\d+)?[ ]*(?:[;|\t"\r]|$))', re.MULTILINE)


def rewritten(chunks: Iterable[bytes], options: InputOptions, has_blanks: bool) -> Iterable[bytes]:
    """Rewrite a text; a line stays a line.

    has_blanks  fields stand between blanks, however many
    """
    if options.encoding == "windows-1252":
        chunks = _decoded(chunks)
    if has_blanks:
        chunks = _by_lines(chunks, _squeezed)
    if options.decimal == "comma":
        chunks = _by_lines(chunks, lambda lines: _DECIMAL.sub(rb"\1.", lines))
    return chunks


def stands_between_blanks(first: bytes, option: str | None) -> bool:
    """Whether fields stand between blanks: the option says so, or the first line has several and no delimiter."""
    if option is not None:
        return option in ("space", " ")
    return len(first.split()) > 1 and _DELIMITER.search(first) is None and b'"' not in first


def with_first_line(text: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first line that is no comment, as far as it lies in PEEK_BYTES; and an iterator over the whole text."""
    chunks, head, line = iter(text), b"", None
    while line is None and len(head) < PEEK_BYTES and (chunk := next(chunks, None)) is not None:
        head += chunk
        line = _first_line(head)
    return line or b"", chain([head], chunks)


def _first_line(head: bytes) -> bytes | None:
    """The first whole line that is neither blank nor a comment; None if there is none."""
    first, end, rest = head.lstrip().partition(b"\n")
    while first.startswith(b"#") and end:
        first, end, rest = rest.lstrip().partition(b"\n")
    return first if end else None


def _decoded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("cp1252")()
    for chunk in chunks:
        try:
            yield decoder.decode(chunk).encode()
        except UnicodeDecodeError as error:
            raise InputError("not_text", "the text is not Windows-1252", hint=_NO_ENCODING) from error


def _squeezed(lines: bytes) -> bytes:
    return _ENDS.sub(b"", _BLANKS.sub(lambda found: found[1] or b" ", lines))


def _by_lines(chunks: Iterable[bytes], change: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Change whole lines."""
    rest = b""
    for chunk in chunks:
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            yield change(lines) + end
    if rest:
        yield change(rest)
