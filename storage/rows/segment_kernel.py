"""Inner loops of segments: they pack rows (`segment`), choose rows to keep, and copy rows (`scattered`)."""

from typing import Any, NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array


class Columns(NamedTuple):
    """The columns of a segment as a tuple, for kernels; for their meaning see storage.rows.segment.Segment."""

    row_id: Array
    class_code: Array
    fold: Array
    Qii: Array
    indptr: Array
    indices: Array
    values: Array
    target: Array
    weight: Array


# number_features(indices (n,)): fills `indices` with 0, 1, 2, ..., the features of a dense row.


@njit(cache=True, nogil=True, inline="always")
def number_features(indices: Array) -> None:
    for j in range(indices.shape[0]):
        indices[j] = j


# append_rows(picked (k,), columns of the source, rows, room, per_row, per_value, columns of the segment being built):
# appends the picked rows, in order, to a segment of `rows` rows, until a row would exceed `room` bytes. A row takes
# `per_row` bytes, a value `per_value`. Fills the columns `out` in place; returns the number of rows appended. If `out`
# has indices, dense rows get indices.


@njit(cache=True, nogil=True)
def append_rows(
    picked: Array, source: Columns, rows: int, room: int, per_row: int, per_value: int, out: Columns
) -> int:
    indptr, indices, values = source.indptr, source.indices, source.values
    is_dense, writes_indices = indices.shape[0] == 0, out.indices.shape[0] > 0
    has_target, has_weight = source.target.shape[0] > 0, source.weight.shape[0] > 0
    position = int(out.indptr[rows])
    used = rows * per_row + position * per_value
    for k in range(picked.shape[0]):
        i = picked[k]
        start, end = int(indptr[i]), int(indptr[i + 1])
        length = end - start
        used += per_row + length * per_value
        if used > room:
            return k
        row = rows + k
        out.row_id[row], out.Qii[row] = source.row_id[i], source.Qii[i]
        out.class_code[row], out.fold[row] = source.class_code[i], source.fold[i]
        if has_target:
            out.target[row] = source.target[i]
        if has_weight:
            out.weight[row] = source.weight[i]
        # A separate loop for each column, over views that start at 0, compiles to vector code.
        if writes_indices:
            to_indices = out.indices[position : position + length]
            if is_dense:
                number_features(to_indices)
            else:
                row_indices = indices[start:end]
                for j in range(length):
                    to_indices[j] = row_indices[j]
        row_values, to_values = values[start:end], out.values[position : position + length]
        for j in range(length):
            to_values[j] = row_values[j]
        position += length
        out.indptr[row + 1] = position
    return picked.shape[0]


# densify(indptr (n + 1,), indices, values, dense (n, d) zeros): dense[i, f] = the value of feature f in row i.


@njit(cache=True, nogil=True)
def densify(indptr: Array, indices: Array, values: Array, dense: Array) -> None:
    for i in range(dense.shape[0]):
        row = dense[i]
        for j in range(indptr[i], indptr[i + 1]):
            row[np.uint32(indices[j])] = values[j]


# Chooses the rows of lowest score without sorting all rows.

INFINITE = 0xFF800000  # the key of +inf
_END = 1 << 32  # above every key


@njit(cache=True, nogil=True)
def key(bits: Any) -> Any:
    """Turn the bits of a float32 (int32, widened to int64) into an integer in 0 .. 2^32 - 1 of the same order."""
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) + 0x80000000


# best_rows(bits (n,) int32: scores (float32), size, segment (n,), room, chosen (n,) bool, worth (n_segments,)):
# chooses the rows of lowest score that fit into `room` bytes; among equal scores the first rows; never a row of score
# +inf. Fills `chosen`, and adds the bytes of the chosen rows to `worth` by segment. Radix selection: three rounds look
# at 11, 11 and 10 bits of the key, each round within the interval of keys in which the room runs out.


@njit(cache=True, nogil=True)
def best_rows(bits: Array, size: Array, segment: Array, room: float, chosen: Array, worth: Array) -> None:
    n_rows = bits.shape[0]
    sums = np.zeros(2048, np.int64)
    remaining = np.int64(room)
    last = np.int64(0)  # leading bits of the key at which the room runs out
    shift = 32
    for width in (11, 11, 10):
        sums[:] = 0
        for i in range(n_rows):
            k = key(np.int64(bits[i]))
            if k >> shift == last:
                sums[(k >> (shift - width)) & ((1 << width) - 1)] += size[i]
        shift -= width
        interval = 0
        while interval < 1 << width and sums[interval] <= remaining:
            remaining -= sums[interval]
            interval += 1
        if interval == 1 << width:  # only in the first round: all rows fit
            last = np.int64(_END)
            break
        last = (last << width) + interval

    for i in range(n_rows):
        k = key(np.int64(bits[i]))
        chosen[i] = k < last and k != INFINITE
        if k == last and k != INFINITE and size[i] <= remaining:
            remaining -= size[i]
            chosen[i] = True
        if chosen[i]:
            worth[segment[i]] += size[i]


# Copies rows of many segments, in any order, into one segment.

POSITION_BITS = 32
ROW_ID, CLASS_CODE, FOLD, QII, INDPTR, INDICES, VALUES, TARGET, WEIGHT = range(len(Columns._fields))
_OFFSETS_AHEAD, _ROWS_AHEAD = 16, 8
_A_LINE = 16  # number of indices or values in a line of the processor's cache
_PREFETCHED = 128  # most indices or values of a row to prefetch; the processor itself fetches the rest of a longer row


class Memory(NamedTuple):
    """The memory that contains all segments, as an array of each type; a column begins at an index of such an array."""

    integers: Array  # int32
    floats: Array  # float32
    doubles: Array  # float64
    codes: Array  # uint16


# append_scattered(places (k,) int64, offsets (n_segments, 9) int64, memory, has_target, has_weight, rows, room,
#                  per_row, per_value, out): as append_rows, but with rows of many segments. A place is
# 2^32 times the number of a segment, plus the row's position in it. offsets: index in `memory` at which each column of
# each segment begins; -1 for the indices of dense segments, whose rows get indices if `out` has them.


@njit(cache=True, nogil=True)
def append_scattered(
    places: Array, offsets: Array, memory: Memory, has_target: bool, has_weight: bool, rows: int, room: int,
    per_row: int, per_value: int, out: Columns,
) -> int:  # fmt: skip
    integers, floats, doubles, codes = memory
    count = places.shape[0]
    at = int(out.indptr[rows])
    used = rows * per_row + at * per_value
    for k in range(count):
        if k + _OFFSETS_AHEAD < count:
            coming = places[k + _OFFSETS_AHEAD]
            prefetch(integers, offsets[coming >> POSITION_BITS, INDPTR] + (coming & 0xFFFFFFFF))
        if k + _ROWS_AHEAD < count:
            prefetch_scattered(places[k + _ROWS_AHEAD], offsets, memory)
        segment, i = places[k] >> POSITION_BITS, places[k] & 0xFFFFFFFF
        own = offsets[segment]
        start = int(integers[own[INDPTR] + i])
        length = int(integers[own[INDPTR] + i + 1]) - start
        used += per_row + length * per_value
        if used > room:
            return k
        row = rows + k
        out.row_id[row], out.Qii[row] = integers[own[ROW_ID] + i], doubles[own[QII] + i]
        out.class_code[row], out.fold[row] = codes[own[CLASS_CODE] + i], codes[own[FOLD] + i]
        if has_target:
            out.target[row] = floats[own[TARGET] + i]
        if has_weight:
            out.weight[row] = floats[own[WEIGHT] + i]
        # A separate loop for each column, over views that start at 0, compiles to vector code.
        if out.indices.shape[0] > 0:
            to_indices = out.indices[at : at + length]
            if own[INDICES] < 0:
                number_features(to_indices)
            else:
                first = own[INDICES] + start
                row_indices = integers[first : first + length]
                for j in range(length):
                    to_indices[j] = row_indices[j]
        first = own[VALUES] + start
        row_values, to_values = floats[first : first + length], out.values[at : at + length]
        for j in range(length):
            to_values[j] = row_values[j]
        at += length
        out.indptr[row + 1] = at
    return count


@njit(cache=True, nogil=True)
def prefetch_scattered(place: int, offsets: Array, memory: Memory) -> None:
    own, i = offsets[place >> POSITION_BITS], place & 0xFFFFFFFF
    start = memory.integers[own[INDPTR] + i]
    for j in range(start, min(memory.integers[own[INDPTR] + i + 1], start + _PREFETCHED), _A_LINE):
        if own[INDICES] >= 0:
            prefetch(memory.integers, own[INDICES] + j)
        prefetch(memory.floats, own[VALUES] + j)
    prefetch(memory.integers, own[ROW_ID] + i)
    prefetch(memory.doubles, own[QII] + i)
    prefetch(memory.codes, own[CLASS_CODE] + i)
    prefetch(memory.codes, own[FOLD] + i)
