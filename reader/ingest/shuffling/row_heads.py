"""Packs label, weight and group of a row into words of 4 bytes, the row's head, which the shuffle moves."""

import numpy as np

from streamsvm.storage.rows.csr import GROUP, LABEL, WEIGHT, Array, Rows

_TYPES = {"label": LABEL, "weight": WEIGHT, "group": GROUP}
_WORD, _TWO_WORDS = np.dtype("<i4"), np.dtype("<i8")


def columns_of(rows: Rows) -> tuple[str, ...]:
    """Names of the columns that the rows have: label, then weight and group if there are any."""
    return tuple(name for name in _TYPES if getattr(rows, name) is not None)


def head_of(rows: Rows) -> Array:
    """(n_rows, 2 * columns) int32: the bits of the columns."""
    columns = [getattr(rows, name).view(_TWO_WORDS) for name in columns_of(rows)]
    return np.stack(columns, axis=1).view(_WORD)


def columns_of_heads(head: Array, names: tuple[str, ...]) -> dict[str, Array]:
    """Unpack `head_of` rows whose `columns_of` are `names`."""
    bits = head.view(_TWO_WORDS)
    return {name: np.ascontiguousarray(bits[:, place]).view(_TYPES[name]) for place, name in enumerate(names)}
