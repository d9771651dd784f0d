"""Copies rows of many segments, in any order, into one segment: the inner loop of `scattered`."""

from typing import NamedTuple

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment_kernel import Columns, number_features

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
#                  per_row, per_value, out): as segment_kernel.append_rows, but with rows of many segments. A place is
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
