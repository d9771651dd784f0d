"""The head of a row: label, weight and group, as words of 4 bytes, as the shuffle moves them."""

import numpy as np

from streamsvm.storage.rows.csr import GROUP, LABEL, WEIGHT, Array, Rows

_TYPES = {"label": LABEL, "weight": WEIGHT, "group": GROUP}
_WORD, _TWO_WORDS = np.dtype("<i4"), np.dtype("<i8")


def kept_columns(rows: Rows) -> tuple[str, ...]:
    """Names of the columns these rows have, label first."""
    return tuple(name for name in _TYPES if getattr(rows, name) is not None)


def head_of(rows: Rows) -> Array:
    """(n_rows, 2 for each column) int32: the bits of the columns."""
    columns = [getattr(rows, name).view(_TWO_WORDS) for name in kept_columns(rows)]
    return np.stack(columns, axis=1).view(_WORD)


def heads_apart(head: Array, kept: tuple[str, ...]) -> dict[str, Array]:
    """The columns of these names back."""
    bits = head.view(_TWO_WORDS)
    return {name: np.ascontiguousarray(bits[:, place]).view(_TYPES[name]) for place, name in enumerate(kept)}
