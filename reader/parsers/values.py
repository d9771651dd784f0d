"""Values of all formats: what is a number, what is wrong with it, and the words that values are written as.

A value is the same word whatever format brings it: the rule is in reader/README.md, Values. Labels that are strings get
numbers, and groups hashes; rows hold these. The manifest stores the names, in the order of their numbers
(`Manifest.label_names`). `RowEncoder` turns the number in a row into the class code that training uses. The plan of a
job looks the names up for the model (`JobPlan.model_labels`), so that a model predicts names.
"""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.options import LabelType
from streamsvm.storage.rows.csr import GROUP, LABEL, Array

BLANKS = " \t"  # removed from both ends of a word
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d)?(?P<fraction>\.\d{1,9})?"
    r" ?(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_TIME_OF_DAY = re.compile(r"(\d\d:\d\d:\d\d)(\.\d{1,9})")
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0")
_TRUTH = {"true": "True", "TRUE": "True", "false": "False", "FALSE": "False"}
NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
WEIGHTED = re.compile(NUMBER.pattern + rb":[^ \t\r\n#]*")
BAD_BYTE = re.compile(rb"[\x00\x80-\xff]")
INDEX_DIGITS = 10  # of 2^31
FLOAT32_OVERFLOW = float(2**128 - 2**103)  # from here on a double rounds to an infinite float32

Fault = tuple[str, str]  # code, message


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


def _fraction(text: str | None) -> str:
    return (text or "").rstrip("0").rstrip(".")


def label_fault(token: bytes) -> Fault:
    """Return the fault of a token that stands where the label of a row should be, and is no finite number."""
    parts = token.split(b",")
    if len(parts) > 1 and all(NUMBER.fullmatch(part) for part in parts):
        return "multilabel", f"several labels in one row: {excerpt(token)}"
    if WEIGHTED.fullmatch(token):
        return "bad_label", f"no label before {excerpt(token)}, or a weight where none is expected"
    if b":" in token:
        return "bad_label", f"no label before {excerpt(token)}"
    return "bad_label", f"{excerpt(token)} is not a finite number"


def exact_fault(token: bytes) -> Fault | None:
    """Return the fault of a label if it is a whole number, in digits, that float64 does not hold, else None."""
    digits = token.lstrip(b"+-")
    if not digits.isdigit() or math.isinf(float(digits)) or int(digits.lstrip(b"0") or b"0") == float(digits):
        return None
    return "label_not_exact", f"float64 does not hold {excerpt(token)}"


def weight_fault(token: bytes) -> Fault | None:
    """Return the fault of the weight of a row, the token behind `label:`; None if the weight is valid."""
    if not token or b":" in token:
        return "bad_weight", f"{excerpt(token)} is not a weight: rows begin with label:weight"
    fault = value_fault(token)
    if fault is not None:
        return fault[0], fault[1].replace("value", "weight", 1)
    return ("negative_weight", f"weight {excerpt(token)} has a minus sign") if token.startswith(b"-") else None


def pair_fault(token: bytes, previous: int, lowest: int, features: int) -> Fault:
    """Return the fault of a token that is no index:value pair with index > previous, >= lowest and < features."""
    if token.startswith(b"qid:"):
        return "qid_unsupported", "a query id stands where a feature belongs"
    index, _, value = token.partition(b":")
    if not index or not value or b":" in value:
        return "bad_pair", f"{excerpt(token)} is not of the form index:value"
    fault = _index_fault(index, previous, lowest, features) or value_fault(value)
    if fault is None:
        raise AssertionError(f"the kernel refused {excerpt(token)} without a reason")
    return fault


def value_fault(value: bytes) -> Fault | None:
    """Return the fault of the value of a pair, or None if it is a number that float32 holds."""
    if NOT_FINITE.fullmatch(value):
        return "value_not_finite", f"value {excerpt(value)} is not finite"
    if not NUMBER.fullmatch(value):
        return "bad_number", f"value {excerpt(value)} is not a number"
    number = abs(float(value))
    if math.isinf(number):
        return "value_not_finite", f"value {excerpt(value)} is not finite"
    if number >= FLOAT32_OVERFLOW:
        return "row_overflow", f"value {excerpt(value)} does not fit float32"
    return None


def _index_fault(index: bytes, previous: int, lowest: int, features: int) -> Fault | None:
    if not re.fullmatch(rb"[0-9]+", index):
        return "bad_index", f"index {excerpt(index)} is not a whole number"
    digits = index.lstrip(b"0")
    if len(digits) > INDEX_DIGITS or int(digits or b"0") >= 2**31:
        return "index_too_large", f"index {excerpt(index)} is not below 2^31"
    number = int(digits or b"0")
    if number >= features:
        return "too_many_features", f"index {number} is not below the limit of {features} features"
    if number < lowest:
        return "index_zero", "index 0 in a file whose indices start at 1"
    if number == previous:
        return "index_duplicate", f"index {number} stands twice in a row"
    if number < previous:
        return "index_order", f"index {number} comes after index {previous}"
    return None


def fits(values: Array) -> Array:
    """Return (n,) bool: whether each value is finite when it is rounded to float32."""
    return np.abs(values) < FLOAT32_OVERFLOW


def are_exact(numbers: Array) -> Array:
    """Return (n,) bool: whether float64 holds each number exactly; only integers from 2^53 on may be inexact."""
    exact = np.ones(len(numbers), bool)
    if numbers.dtype.kind in "iu":
        for row in np.flatnonzero(np.abs(numbers.astype(np.float64)) >= 2**53).tolist():
            exact[row] = int(numbers[row]) == float(numbers[row])
    return exact


def misfit(value: float) -> tuple[str, str]:
    """Return code and message of the fault of a value that is too large for float32, infinite or NaN."""
    if np.isfinite(value):
        return "row_overflow", f"value {value:g} does not fit float32"
    return "value_not_finite", f"value {value:g} is not finite"


def weight_misfit(value: float) -> tuple[str, str]:
    """Return code and message of the fault of a weight that is negative, too large for float32, infinite or NaN."""
    if np.isfinite(value) and value < 0:
        return "negative_weight", f"weight {value:g} is below 0"
    return misfit(value)


MOST_NAMES = 10_000
MOST_CHARACTERS = 256


class LabelNames:
    """Numbers labels that are strings: those in `names` from 0 on, then new ones batch by batch, sorted in each batch.

    type   "number", "string", or "auto" until the parser has seen the first label and sets the type
    names  all names so far; the name at index i has the number i
    """

    def __init__(self, type_: LabelType = "auto", names: Sequence[str] = ()) -> None:
        self.type = type_
        self._numbers = {name: number for number, name in enumerate(names)}
        self._values = {_value_of(name): name for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def numbers(self, labels: Sequence[str]) -> Array:
        """Return the numbers (n,) float64 of a batch of labels, after new labels have got numbers.

        Raises InputError too_many_labels, or labels_alike for labels of one value, such as 1 and 1.0, or True and 1.
        """
        for name in sorted(set(labels) - self._numbers.keys()):
            self._numbers[name] = len(self._numbers)
            other = self._values.setdefault(_value_of(name), name)
            if other != name:
                one, two = excerpt(other.encode()), excerpt(name.encode())
                raise InputError("labels_alike", f"the labels {one} and {two} are one value")
        if len(self._numbers) > MOST_NAMES:
            raise InputError("too_many_labels", f"there are more than {MOST_NAMES} different labels that are strings")
        return np.fromiter(map(self._numbers.__getitem__, labels), LABEL, len(labels))


@lru_cache(1 << 16)
def group_of(text: str) -> int:
    """Return the first 8 bytes of the BLAKE2b hash of a text's value in UTF-8, little-endian: equal on all machines."""
    return int.from_bytes(blake2b(value_of(text.strip(BLANKS)).encode(), digest_size=8).digest(), "little")


def groups_of(values: Iterable[object]) -> Array:
    """Return (n,) uint64: hashes of strings or numbers; equal values have equal hashes, also 7 and 7.0."""
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values)
    return np.fromiter(map(group_of, texts), GROUP)


def _value_of(label: str) -> str:
    value = value_of(label)
    return {"True": "1", "False": "0"}.get(value, value)
