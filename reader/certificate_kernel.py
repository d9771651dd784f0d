"""Dot products with one vector and sums into another, of the same rows at once."""

from numba import njit

from storage.csr import LARGE_W, Array
from storage.prefetch_kernel import prefetch

# dots_and_sums(coefficient (n,), indptr, indices, values, pairs (2 d,) float64, out (n,) float64):
# out[i] = <w, x_i> and v += sum_i coefficient[i] x_i, in place, with w_j and v_j side by side in `pairs`: what the dot
# product has fetched the sum finds near by. Where that is large, the next row's are asked for meanwhile.


@njit(cache=True, nogil=True)
def dots_and_sums(coefficient: Array, indptr: Array, indices: Array, values: Array, pairs: Array, out: Array) -> None:
    prefetches = pairs.shape[0] > 2 * LARGE_W
    for i in range(out.shape[0]):
        start, end = indptr[i], indptr[i + 1]
        coming_end = indptr[i + 2] if prefetches and i + 1 < out.shape[0] else end
        both = min(end - start, coming_end - end) & ~1
        s0 = s1 = 0.0
        for j in range(start, start + both, 2):
            ahead = end + (j - start)
            prefetch(pairs, 2 * int(indices[ahead]))
            prefetch(pairs, 2 * int(indices[ahead + 1]))
            s0 += pairs[2 * int(indices[j])] * values[j]
            s1 += pairs[2 * int(indices[j + 1])] * values[j + 1]
        for j in range(start + both, end):
            s0 += pairs[2 * int(indices[j])] * values[j]
        for j in range(end + both, coming_end):
            prefetch(pairs, 2 * int(indices[j]))
        out[i] = s0 + s1
        if coefficient[i] != 0.0:
            for j in range(start, end):
                pairs[2 * int(indices[j]) + 1] += coefficient[i] * values[j]
