"""Computes dot products of rows with one vector, and adds the rows to another vector, in one pass over the rows."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, READ_AHEAD, Array, feature

# dots_and_sums(coefficient (n,), indptr, indices, values, pairs (2 d,) float64, out (n,) float64):
# out[i] = <w, x_i> and v += sum_i coefficient[i] x_i, in place, with w_j and v_j side by side in `pairs`, so that both
# are in one cache line. If d is large, the pair that is needed READ_AHEAD non-zeros later is prefetched.
# No row has a feature twice, so reading w and changing v in turn does not change the result.

_ONE, _TWO = np.uint64(1), np.uint64(2)


@njit(cache=True, nogil=True)
def dots_and_sums(coefficient: Array, indptr: Array, indices: Array, values: Array, pairs: Array, out: Array) -> None:
    is_fetched = pairs.shape[0] > 2 * LARGE_W and indices.shape[0] > 0
    last = indptr[out.shape[0]] - READ_AHEAD - 2 if is_fetched else -1
    for i in range(out.shape[0]):
        start, end, own = indptr[i], indptr[i + 1], coefficient[i]
        even = end - ((end - start) & 1)
        s0 = s1 = 0.0
        for j in range(start, even, 2):
            if end <= last:
                prefetch(pairs, 2 * int(indices[j + READ_AHEAD]))
                prefetch(pairs, 2 * int(indices[j + READ_AHEAD + 1]))
            first, second = _TWO * feature(indices, start, j), _TWO * feature(indices, start, j + 1)
            s0 += pairs[first] * values[j]
            s1 += pairs[second] * values[j + 1]
            pairs[first + _ONE] += own * values[j]
            pairs[second + _ONE] += own * values[j + 1]
        for j in range(even, end):
            first = _TWO * feature(indices, start, j)
            s0 += pairs[first] * values[j]
            pairs[first + _ONE] += own * values[j]
        out[i] = s0 + s1
