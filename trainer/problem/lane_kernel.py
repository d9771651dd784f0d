"""Dot products and sums of rows in several lanes at once. w (d * width,) has the lanes of a feature side by side;
`width`, the length of the axis of lanes, is 1, 4 or a multiple of 8.
"""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array, add_row, dot_fetching, feature

# Eight lanes at a time, or four, have separate sums, which the compiler puts into vector registers. Where w is large,
# the weights of the next row, whose values are at coming:coming_end, are prefetched meanwhile: 8 lanes then take half
# of the time.


@njit(cache=True, nogil=True, inline="always")
def _dot_8(
    indices: Array, values: Array, start: int, end: int, w: Array, width: int, lane: int, coming: int, coming_end: int,
    out: Array,
) -> None:  # fmt: skip
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    both = min(end - start, coming_end - coming) if indices.shape[0] > 0 else 0
    stride, first = np.uint64(width), np.uint64(lane)
    for j in range(start, start + both):
        prefetch(w, int(indices[coming + (j - start)]) * width + lane)
        p, v = np.uint64(feature(indices, start, j)) * stride + first, np.float64(values[j])
        s0 += w[p] * v
        s1 += w[p + np.uint64(1)] * v
        s2 += w[p + np.uint64(2)] * v
        s3 += w[p + np.uint64(3)] * v
        s4 += w[p + np.uint64(4)] * v
        s5 += w[p + np.uint64(5)] * v
        s6 += w[p + np.uint64(6)] * v
        s7 += w[p + np.uint64(7)] * v
    for j in range(coming + both, coming_end if indices.shape[0] > 0 else 0):
        prefetch(w, int(indices[j]) * width + lane)
    for j in range(start + both, end):
        p, v = np.uint64(feature(indices, start, j)) * stride + first, np.float64(values[j])
        s0 += w[p] * v
        s1 += w[p + np.uint64(1)] * v
        s2 += w[p + np.uint64(2)] * v
        s3 += w[p + np.uint64(3)] * v
        s4 += w[p + np.uint64(4)] * v
        s5 += w[p + np.uint64(5)] * v
        s6 += w[p + np.uint64(6)] * v
        s7 += w[p + np.uint64(7)] * v
    out[lane], out[lane + 1], out[lane + 2], out[lane + 3] = s0, s1, s2, s3
    out[lane + 4], out[lane + 5], out[lane + 6], out[lane + 7] = s4, s5, s6, s7


@njit(cache=True, nogil=True, inline="always")
def _dot_4(
    indices: Array, values: Array, start: int, end: int, w: Array, coming: int, coming_end: int, out: Array
) -> None:
    s0 = s1 = s2 = s3 = 0.0
    both = min(end - start, coming_end - coming) if indices.shape[0] > 0 else 0
    for j in range(start, start + both):
        prefetch(w, int(indices[coming + (j - start)]) * 4)
        p, v = np.uint64(feature(indices, start, j)) * np.uint64(4), np.float64(values[j])
        s0 += w[p] * v
        s1 += w[p + np.uint64(1)] * v
        s2 += w[p + np.uint64(2)] * v
        s3 += w[p + np.uint64(3)] * v
    for j in range(coming + both, coming_end if indices.shape[0] > 0 else 0):
        prefetch(w, int(indices[j]) * 4)
    for j in range(start + both, end):
        p, v = np.uint64(feature(indices, start, j)) * np.uint64(4), np.float64(values[j])
        s0 += w[p] * v
        s1 += w[p + np.uint64(1)] * v
        s2 += w[p + np.uint64(2)] * v
        s3 += w[p + np.uint64(3)] * v
    out[0], out[1], out[2], out[3] = s0, s1, s2, s3


# dot_lanes(...): out (width,) <- <w_lane, x> of the row at start:end, in every lane.


@njit(cache=True, nogil=True)
def dot_lanes(
    indices: Array, values: Array, start: int, end: int, w: Array, width: int, coming: int, coming_end: int, out: Array
) -> None:
    if width == 1:
        out[0] = dot_fetching(indices, values, start, end, w, coming, coming_end)
    elif width == 4:
        _dot_4(indices, values, start, end, w, coming, coming_end, out)
    else:
        for lane in range(0, width, 8):
            _dot_8(indices, values, start, end, w, width, lane, coming, coming_end, out)


@njit(cache=True, nogil=True, inline="always")
def _add_8(indices: Array, values: Array, start: int, end: int, step: Array, w: Array, width: int, lane: int) -> None:
    t0, t1, t2, t3 = step[lane], step[lane + 1], step[lane + 2], step[lane + 3]
    t4, t5, t6, t7 = step[lane + 4], step[lane + 5], step[lane + 6], step[lane + 7]
    stride, first = np.uint64(width), np.uint64(lane)
    for j in range(start, end):
        p, v = np.uint64(feature(indices, start, j)) * stride + first, np.float64(values[j])
        w[p] += t0 * v
        w[p + np.uint64(1)] += t1 * v
        w[p + np.uint64(2)] += t2 * v
        w[p + np.uint64(3)] += t3 * v
        w[p + np.uint64(4)] += t4 * v
        w[p + np.uint64(5)] += t5 * v
        w[p + np.uint64(6)] += t6 * v
        w[p + np.uint64(7)] += t7 * v


@njit(cache=True, nogil=True, inline="always")
def _add_4(indices: Array, values: Array, start: int, end: int, step: Array, w: Array) -> None:
    t0, t1, t2, t3 = step[0], step[1], step[2], step[3]
    for j in range(start, end):
        p, v = np.uint64(feature(indices, start, j)) * np.uint64(4), np.float64(values[j])
        w[p] += t0 * v
        w[p + np.uint64(1)] += t1 * v
        w[p + np.uint64(2)] += t2 * v
        w[p + np.uint64(3)] += t3 * v


# add_lanes(..., step (width,)): w_lane += step_lane x, in place, of the row at start:end, in every lane.


@njit(cache=True, nogil=True)
def add_lanes(indices: Array, values: Array, start: int, end: int, step: Array, w: Array, width: int) -> None:
    if width == 1:
        add_row(start, end, indices, values, step[0], w)
    elif width == 4:
        _add_4(indices, values, start, end, step, w)
    else:
        for lane in range(0, width, 8):
            has_moved = False
            for k in range(lane, lane + 8):
                has_moved |= step[k] != 0.0
            if has_moved:
                _add_8(indices, values, start, end, step, w, width, lane)


# dots_of_lanes(indptr, indices, values, w, out (n, width)): out[i] = <w_lane, x_i> in every lane.


@njit(cache=True, nogil=True)
def dots_of_lanes(indptr: Array, indices: Array, values: Array, w: Array, out: Array) -> None:
    n, width = out.shape
    for i in range(n):
        coming = indptr[i + 1]
        end = indptr[i + 2] if i + 2 <= n and w.shape[0] > LARGE_W else coming
        dot_lanes(indices, values, indptr[i], coming, w, width, coming, end, out[i])


# add_in_lanes(coefficient (n, width), indptr, indices, values, w): w_lane += sum_i coefficient[i, lane] x_i, in place.


@njit(cache=True, nogil=True)
def add_in_lanes(coefficient: Array, indptr: Array, indices: Array, values: Array, w: Array) -> None:
    n, width = coefficient.shape
    for i in range(n):
        if i + 1 < n and w.shape[0] > LARGE_W and indices.shape[0] > 0:
            for j in range(indptr[i + 1], indptr[i + 2]):
                prefetch(w, int(indices[j]) * width)
        add_lanes(indices, values, indptr[i], indptr[i + 1], coefficient[i], w, width)


# squares_of_lanes(w (d, width), out (width,)): |w_lane|^2; sums_of_lanes(a (n, width), out): sum_i a[i, lane].


@njit(cache=True, nogil=True)
def squares_of_lanes(w: Array, out: Array) -> None:
    out[:] = 0.0
    for f in range(w.shape[0]):
        for lane in range(w.shape[1]):
            out[lane] += w[f, lane] * w[f, lane]


@njit(cache=True, nogil=True)
def sums_of_lanes(a: Array, out: Array) -> None:
    out[:] = 0.0
    for i in range(a.shape[0]):
        for lane in range(a.shape[1]):
            out[lane] += a[i, lane]


# differ(x (n, width), earlier (n, width), row_id (k,), out (k,)): whether rows of x differ from those of `earlier`.


@njit(cache=True, nogil=True)
def differ(x: Array, earlier: Array, row_id: Array, out: Array) -> None:
    for k in range(row_id.shape[0]):
        i, lane = row_id[k], 0
        while lane < x.shape[1] and x[i, lane] == earlier[i, lane]:
            lane += 1
        out[k] = lane < x.shape[1]


# move_lanes(x (n, width), earlier (n, width), beta (width,)): x <- x + beta (x - earlier), earlier <- what x was.


@njit(cache=True, nogil=True)
def move_lanes(x: Array, earlier: Array, beta: Array) -> None:
    for i in range(x.shape[0]):
        for lane in range(x.shape[1]):
            was = x[i, lane]
            x[i, lane] = was + beta[lane] * (was - earlier[i, lane])
            earlier[i, lane] = was
