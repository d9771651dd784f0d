"""The last axis of w and alpha, one column a task: its widths, and arrays that begin on a cache line."""

import numpy as np

from streamsvm.storage.rows.csr import Array

# With several columns, one index, one value and one cache line of w serve up to eight tasks.
WIDTHS = (1, 4, 8, 16)
_LINE = 8  # float64 numbers in a cache line


def width_for(lanes: int) -> int:
    """The smallest of WIDTHS with a column for each of so many tasks."""
    return next(width for width in WIDTHS if width >= lanes)


def aligned(array: Array) -> Array:
    """A copy of the array as `zeros` lays it out, float64."""
    copy = zeros(*array.shape)
    copy[:] = array
    return copy


def zeros(*shape: int) -> Array:
    """A float64 array of zeros that begins on a cache line: a row of up to 8 columns then lies within one line."""
    n = int(np.prod(shape))
    room = np.zeros(n + _LINE)
    start = (-room.ctypes.data // room.itemsize) % _LINE
    return room[start : start + n].reshape(shape)
