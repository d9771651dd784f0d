"""Converts values to words, equal values of all formats to one word: the rules are in reader/README.md, Values."""

import math
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np

BLANKS = " \t"  # removed from both ends of a word
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d)?(?P<fraction>\.\d{1,9})?"
    r" ?(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_TIME_OF_DAY = re.compile(r"(\d\d:\d\d:\d\d)(\.\d{1,9})")
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0")
_TRUTH = {"true": "True", "TRUE": "True", "false": "False", "FALSE": "False"}


def is_gap(value: Any) -> bool:
    """Return whether a value of Python is missing: None, nan, or pandas' NA or NaT."""
    return (
        value is None or (isinstance(value, float | np.floating) and math.isnan(value)) or str(value) in ("<NA>", "NaT")
    )


def word_of(value: Any) -> str:
    """Return the word of a value of Python that is no gap. A float of numpy gets the fewest digits that identify it."""
    text = repr(float(str(value))) if isinstance(value, np.floating) else str(value)
    return settled(text.strip(BLANKS))


def settled(word: str) -> str:
    """Return a time, which may be in any form of ISO 8601, in its standard form; return any other word unchanged.

    A time with a zone is converted to UTC. Zeros at the end of a fraction, and midnight without a zone, are removed.
    """
    if (time := _TIME_OF_DAY.fullmatch(word)) is not None:
        return time[1] + _fraction(time[2])
    if (time := _TIME.fullmatch(word)) is None:
        return word
    text = f"{time['day']} {time['minute']}{time['second'] or ':00'}"
    if time["zone"] is None:
        return (text + _fraction(time["fraction"])).removesuffix(" 00:00:00")
    zone = "+00:00" if time["zone"] in ("Z", "UTC") else time["zone"]
    try:
        text = datetime.fromisoformat(text + zone).astimezone(UTC).isoformat(" ")[:19]
    except (ValueError, OverflowError):
        return word
    return f"{text}{_fraction(time['fraction'])}+00:00"


def value_of(word: str) -> str:
    """Return one text for all words that are one value: 7 for 7 and 7.0, True for true, 2024-01-31 for its midnight."""
    whole = _WHOLE.fullmatch(word)
    return whole[1] if whole else _TRUTH.get(word) or settled(word)


def of_32_bits(word: str) -> str:
    """Return the word of the float32 nearest to a fraction of more than 9 characters; return other words unchanged."""
    try:
        return word_of(np.float32(word)) if len(word) > 9 and "." in word else word
    except ValueError:
        return word


def is_exact(number: bytes) -> bool:
    """Return whether float64 holds a whole number written in digits; True for other numbers, which may be rounded."""
    digits = number.lstrip(b"+-")
    if not digits.isdigit() or math.isinf(float(digits)):
        return True
    return int(digits.lstrip(b"0") or b"0") == float(digits)


def _fraction(text: str | None) -> str:
    return (text or "").rstrip("0").rstrip(".")
