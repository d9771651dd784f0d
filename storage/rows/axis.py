"""The axis of lanes, the last of w and alpha: its widths, and arrays that begin on a line of the processor's cache."""

import numpy as np

from streamsvm.storage.rows.csr import Array

# One index, one value and one line of the processor's cache serve eight lanes of w.
WIDTHS = (1, 4, 8, 16)
_LINE = 8  # numbers


def width_for(lanes: int) -> int:
    """The least of WIDTHS with room for so many."""
    return next(width for width in WIDTHS if width >= lanes)


def aligned(array: Array) -> Array:
    """A copy of an array, the lanes of a feature within one line of the processor's cache where they fit."""
    copy = zeros(*array.shape)
    copy[:] = array
    return copy


def zeros(*shape: int) -> Array:
    """float64, the lanes of a feature within one line of the processor's cache where they fit."""
    n = int(np.prod(shape))
    room = np.zeros(n + _LINE)
    start = (-room.ctypes.data // room.itemsize) % _LINE
    return room[start : start + n].reshape(shape)
