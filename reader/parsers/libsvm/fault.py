"""Finds the fault of a token at which the LIBSVM kernel stopped."""

import math
import re

from streamsvm.reader.errors import excerpt
from streamsvm.reader.parsers.values import is_exact

NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
WEIGHTED = re.compile(NUMBER.pattern + rb":[^ \t\r\n#]*")
BAD_BYTE = re.compile(rb"[\x00\x80-\xff]")
INDEX_DIGITS = 10  # of 2^31
FLOAT32_OVERFLOW = float(2**128 - 2**103)  # from here on a double rounds to an infinite float32

Fault = tuple[str, str]  # code, message


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
    """Return the fault of a label if it is a whole number that float64 does not hold, else None."""
    return None if is_exact(token) else ("label_not_exact", f"float64 does not hold {excerpt(token)}")


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
