"""Reads labels, weights and groups of documents, which are bytes, a batch at a time."""

from collections.abc import Callable, Sequence

import numpy as np

from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.libsvm.fault import exact_fault
from streamsvm.reader.parsers.tables.fields import field_fault, is_missing, is_text, is_truth, text_fault
from streamsvm.storage.rows.csr import Array

Fault = tuple[str, str]  # code, message


def settle_type(names: LabelNames, labels: Sequence[bytes]) -> None:
    """Settle the type of labels by the first label that is not missing."""
    if names.type == "auto":
        first = next((label for label in labels if not is_missing(label)), None)
        if first is not None:
            names.type = "string" if is_text(first) or is_truth(first) else "number"


def label_faults(names: LabelNames, labels: Sequence[bytes]) -> dict[int, Fault]:
    """Faults of labels: row -> fault."""
    return _faults(labels, _string_fault if names.type == "string" else _number_fault)


def weight_faults(weights: Sequence[bytes]) -> dict[int, Fault]:
    """Faults of weights: row -> fault."""
    return _faults(weights, lambda weight: field_fault(weight, "weight"))


def group_faults(groups: Sequence[bytes]) -> dict[int, Fault]:
    """Faults of groups: row -> fault."""
    return _faults(groups, text_fault)


def label_values(names: LabelNames, labels: Sequence[bytes]) -> Array:
    """(n,) float64: labels without a fault as numbers, names by their number in `names`. InputError too_many_labels."""
    if names.type == "string":
        return names.numbers([label.decode() for label in labels])
    return _numbers(labels)


def weight_values(weights: Sequence[bytes]) -> Array:
    """(n,) float64: weights without a fault."""
    return _numbers(weights)


def _numbers(texts: Sequence[bytes]) -> Array:
    numbers = {text: float(text) for text in set(texts)}
    return np.fromiter(map(numbers.__getitem__, texts), np.float64, len(texts))


def _faults(texts: Sequence[bytes], fault_of: Callable[[bytes], Fault | None]) -> dict[int, Fault]:
    faults = {text: fault for text in set(texts) if (fault := fault_of(text)) is not None}
    return {row: faults[text] for row, text in enumerate(texts) if text in faults} if faults else {}


def _number_fault(label: bytes) -> Fault | None:
    return field_fault(label, "label") or exact_fault(label)


def _string_fault(label: bytes) -> Fault | None:
    return ("bad_byte", "a byte 0x00 in a label") if b"\0" in label else text_fault(label)
