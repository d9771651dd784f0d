"""Recognises the format of an input by its first bytes."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import orjson

from streamsvm.reader.errors import InputError

HEAD_BYTES = 32
PEEK_BYTES = 64 << 10

NPZ, PARQUET, FEATHER = b"PK\x03\x04", b"PAR1", b"ARROW1"
# The first bytes of files that are not read from front to back. Streams of Arrow begin with FF FF FF FF.
_STORED = ((NPZ, "npz"), (PARQUET, "parquet"), (FEATHER, "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"ORC", "orc"))
_PAIR = re.compile(rb"[ \t][^ \t:,;|]*:\S")
_DELIMITER = re.compile(rb"[,;|\t]")
# Bytes that no text has. In random bytes every ninth is one, in UTF-16 every second; a few are a fault of their line.
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r")) + b"\x7f"
_LABEL = re.compile(rb'[^\s,;|:"]{1,64}')
_WORD = re.compile(rb"[A-Za-z\x80-\xff]{2,}")
_SAMPLE, _MOST_CONTROL = 512, 8

SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (NPZ, "a zip archive, or npz"),
    (b"PK\x05\x06", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (PARQUET, "a Parquet file"),
    (FEATHER, "an Arrow file"),
    (b"\xff\xff\xff\xff", "a stream of Arrow"),
    (b"FEA1", "a Feather file of version 1"),
    (b"\x93NUMPY", "a numpy array"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x1f\x8b", "gzip data inside the input"),
    (b"\x28\xb5\x2f\xfd", "zstd data inside the input"),
    (b"\xfd7zXZ\x00", "xz data inside the input"),
    (b"BZh", "bzip2 data inside the input"),
)
_JSON = "JSON, but not an object a line"
TEXT_SIGNATURES = (
    (b"<", "an HTML or XML page"),
    (b"{", "JSON, but not an object a line"),
    (b"[", "JSON, but not an object a line"),
)


def has_documents(head: bytes) -> bool:
    """Whether every line at the beginning of an input is a short label, a tab, and at least three words."""
    whole = head.removeprefix(b"\xef\xbb\xbf").rpartition(b"\n")[0] if len(head) >= PEEK_BYTES else head
    lines = [line.split(b"\t") for line in whole.split(b"\n") if line.strip()]
    are_pairs = bool(lines) and all(len(line) == 2 and _LABEL.fullmatch(line[0]) for line in lines)
    return are_pairs and all(len(_WORD.findall(text)) > 2 for _, text in lines)


def refuse_foreign(head: bytes, is_json: bool = False) -> None:
    """InputError unknown_format if `head`, the first HEAD_BYTES without a byte order mark, begins no text of rows.

    is_json  rows are JSON
    """
    for signature, name in SIGNATURES:
        if head.startswith(signature):
            raise InputError("unknown_format", f"this is {name}", byte=0)
    for signature, name in () if is_json else TEXT_SIGNATURES:
        if head.lstrip(b" \t\r\n").startswith(signature):
            raise InputError("unknown_format", f"this looks like {name}", byte=0)


def has_objects(head: bytes) -> bool:
    """Whether the first line of an input that begins with `head` (PEEK_BYTES) is a JSON object, or begins one."""
    line, end, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return False
    if not end and len(head) >= PEEK_BYTES:
        return line[1:].lstrip().startswith(b'"')
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def has_pairs(head: bytes) -> bool:
    """Whether a line at the beginning of a text has index:value pairs, like LIBSVM text."""
    return any(_PAIR.search(line) and not _DELIMITER.search(line) for line in head[:PEEK_BYTES].split(b"\n"))


def stored_format(head: bytes) -> str | None:
    """The format of an input that begins with `head` and is not read from front to back; None: it is another one."""
    formats = (name for signature, name in _STORED if head.startswith(signature))
    format_ = next(formats, None)
    # A text may begin with these letters.
    return None if format_ == "orc" and not _n_control(head) else format_


def _n_control(head: bytes) -> int:
    """How many of the first _SAMPLE bytes no text has."""
    sample = head[:_SAMPLE]
    return len(sample) - len(sample.translate(None, _CONTROL))


def recognise(head: bytes) -> str:
    """The format of an input that begins with `head` (PEEK_BYTES): a key of parsers.READERS."""
    stored = stored_format(head)
    if stored is not None:
        return stored
    if has_objects(head):
        return "jsonl"
    n_control, sample = _n_control(head), head[:_SAMPLE]
    if n_control > _MOST_CONTROL and 20 * n_control > len(sample):
        refuse_foreign(head[:HEAD_BYTES])
        raise InputError("unknown_format", "this is no text: binary data, or UTF-16", byte=0)
    lines = (line.strip(b" \r") for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    first = next((line for line in lines if line and not line.startswith((b"#", b"<", b"{", b"["))), b"")
    if first.startswith(b">"):
        return "fasta"
    # A line of LIBSVM text has pairs, or is a label alone.
    is_table = _DELIMITER.search(first) or (len(first.split()) > 1 and b":" not in first)
    return "csv" if is_table and not _PAIR.search(first) else "libsvm"


def with_head(text: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The beginning of a text, with its first line unless that is very long; and an iterator over the whole text."""
    rest, head = iter(text), b""
    while b"\n" not in head.strip() and len(head) < PEEK_BYTES and (chunk := next(rest, None)) is not None:
        head += chunk
    return head, chain([head], rest)
