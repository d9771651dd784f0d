"""A slow reader of LIBSVM text, line by line with regular expressions, to test the fast one against."""

import math
import re
import struct
from dataclasses import dataclass, field
from decimal import Decimal

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
PIECE = re.compile(rb"(?P<blank>[ \t]+)|(?P<comment>#.*)|(?P<stray>\r)|(?P<token>[^ \t\r#]+)", re.DOTALL)
BAD_BYTE = re.compile(rb"[\x00\r\x80-\xff]")
FOREIGN = re.compile(
    rb"PK\x03\x04|PAR1|ARROW1|\x93NUMPY|\x1f\x8b|\(\xb5/\xfd|\xfd7zXZ\x00|BZh|\s{0,30}<[A-Za-z!?/]|\s{0,31}[{\[]"
)


@dataclass
class Text:
    """What a text says: rows of (label, [(index, value)]) without zeros, and the counters; or else its first fault.

    weights   of the rows, if the first begins with label:weight
    """

    rows: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    weights: list[float] | None = None
    blank_lines: int = 0
    comment_lines: int = 0
    explicit_zeros: int = 0
    empty_rows: int = 0
    indices: list[int] = field(default_factory=list)
    had_bom: bool = False
    fault: tuple[str, int | None, int | None] | None = None  # code, line, column


class BadToken(Exception):
    """Arguments: the code of the fault, its place in the line."""


def read(data: bytes, index_base: str | int = "auto", max_line: int = 2**24, max_features: int = 2**27) -> Text:
    """Reads a whole text."""
    text = Text(had_bom=data.startswith(b"\xef\xbb\xbf"))
    body = data[3:] if text.had_bom else data
    if FOREIGN.match(body):
        text.fault = ("unknown_format", None, None)
        return text
    number = 0
    while body and text.fault is None:
        number += 1
        line, feed, body = body.partition(b"\n")
        if len(line) > max_line:
            text.fault = ("line_too_long", number, None)
            break
        try:
            _read_line(text, line.removesuffix(b"\r") if feed else line, index_base, max_features)
        except BadToken as fault:
            code, place = fault.args
            text.fault = (code, number, place + 1)
    if text.fault is None and not text.rows:
        text.fault = ("no_rows", None, None)
    return text


def _read_line(text: Text, line: bytes, index_base: str | int, max_features: int) -> None:
    pieces = [piece for piece in PIECE.finditer(line) if piece.lastgroup != "blank"]
    if not pieces:
        text.blank_lines += 1
        return
    label, weight = None, 1.0
    pairs: list[tuple[int, float]] = []
    for piece in pieces:
        bad = BAD_BYTE.search(piece.group())
        if bad:
            raise BadToken("bad_byte", piece.start() + bad.start())
        if piece.lastgroup == "comment":
            continue
        if label is None:
            token, place = piece.group(), piece.start()
            head, colon, stated = token.partition(b":")
            if not text.rows and colon and NUMBER.match(head):
                text.weights = []
            has_weight = colon and text.weights is not None
            label = _label(head if has_weight else token, place)
            weight = _weight(stated, place + len(head) + 1) if has_weight else 1.0
        else:
            previous = pairs[-1][0] if pairs else None
            pairs.append(_pair(piece.group(), piece.start(), previous, index_base, max_features))
    if label is None:
        text.comment_lines += 1
        return
    kept = [pair for pair in pairs if pair[1] != 0]
    text.rows.append((label, kept))
    if text.weights is not None:
        text.weights.append(weight)
    text.explicit_zeros += len(pairs) - len(kept)
    text.empty_rows += not pairs
    text.indices += [index for index, _ in pairs]


def _label(token: bytes, place: int) -> float:
    if NUMBER.match(token) and math.isfinite(float(token)):
        if re.fullmatch(rb"[+-]?[0-9]+", token) and Decimal(token.decode()) != Decimal(float(token)):
            raise BadToken("label_not_exact", place)
        return float(token)
    several = b"," in token and all(NUMBER.match(part) for part in token.split(b","))
    raise BadToken("multilabel" if several else "bad_label", place)


def _weight(token: bytes, place: int) -> float:
    if token in (b"",) or b":" in token:
        raise BadToken("bad_weight", place)
    _value(token, place)
    if token.startswith(b"-"):
        raise BadToken("negative_weight", place)
    return float(token)


def _pair(token: bytes, place: int, previous: int | None, base: str | int, max_features: int) -> tuple[int, float]:
    if token[:4] == b"qid:":
        raise BadToken("qid_unsupported", place)
    parts = token.split(b":")
    if len(parts) != 2 or b"" in parts:
        raise BadToken("bad_pair", place)
    if not parts[0].isdigit():
        raise BadToken("bad_index", place)
    index = int(parts[0])
    for wrong, code in (
        (index >= 2**31, "index_too_large"),
        (index >= max_features, "too_many_features"),
        (index == 0 and base == 1, "index_zero"),
        (index == previous, "index_duplicate"),
        (previous is not None and index < previous, "index_order"),
    ):
        if wrong:
            raise BadToken(code, place)
    return index, _value(parts[1], place)


def _value(token: bytes, place: int) -> float:
    bare = token.lstrip(b"+-")
    if bare.lower() in (b"inf", b"infinity", b"nan") and len(bare) + 1 >= len(token):
        raise BadToken("value_not_finite", place)
    if not NUMBER.match(token):
        raise BadToken("bad_number", place)
    value = float(token)
    if math.isinf(value):
        raise BadToken("value_not_finite", place)
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise BadToken("row_overflow", place) from None
