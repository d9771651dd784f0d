"""Writes values as words, the same ones whatever format they come in: the rule is in reader/README.md, Values."""

import math
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np

BLANKS = " \t"  # that are cut off around a word
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d)?(?P<fraction>\.\d{1,9})?"
    r" ?(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_TIME_OF_DAY = re.compile(r"(\d\d:\d\d:\d\d)(\.\d{1,9})")
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0")
_TRUTH = {"true": "True", "TRUE": "True", "false": "False", "FALSE": "False"}


def is_gap(value: Any) -> bool:
    """Whether a value of Python is missing: None, nan, or pandas' NA or NaT."""
    return (
        value is None or (isinstance(value, float | np.floating) and math.isnan(value)) or str(value) in ("<NA>", "NaT")
    )


def word_of(value: Any) -> str:
    """The word of a value of Python that is no gap; a number of numpy has as few digits as its own bits need."""
    text = repr(float(str(value))) if isinstance(value, np.floating) else str(value)
    return settled(text.strip(BLANKS))


def settled(word: str) -> str:
    """The word that a time written in any way of ISO 8601 becomes; other words stay.

    A time with a zone is one of UTC; zeros that end a fraction go, and so does midnight, if there is no zone.
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
    """The word of the number of 32 bits that a fraction with more digits stands for; other words stay."""
    try:
        return word_of(np.float32(word)) if len(word) > 9 and "." in word else word
    except ValueError:
        return word


def is_exact(number: bytes) -> bool:
    """Whether float64 holds a number that is written with digits alone; others are rounded, as is usual."""
    digits = number.lstrip(b"+-")
    if not digits.isdigit() or math.isinf(float(digits)):
        return True
    return int(digits.lstrip(b"0") or b"0") == float(digits)


def _fraction(text: str | None) -> str:
    return (text or "").rstrip("0").rstrip(".")
