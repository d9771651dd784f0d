"""Squared distances of sparse rows from many vectors at once, in float64."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.models.gaussian_kernel import inner_products
from streamsvm.storage.rows.csr import Array

# squared_distances(indptr (n + 1,), indices, values (nnz,) float64, place, Z (n_used, m) float64, norms (m,), out):
#
#   out[i, s] = |z_s - x_i|^2 = |z_s|^2 + |x_i|^2 - 2 <z_s, x_i>, (n, m) float64
#
# norms[s] = |z_s|^2. A feature f that a vector has is in row place[f] of Z; place[f] < 0, or f beyond `place`: none has
# it. It then adds to the distance, since the vectors are 0 there.


@njit(cache=True, nogil=True)
def squared_distances(
    indptr: Array, indices: Array, values: Array, place: Array, Z: Array, norms: Array, out: Array
) -> None:
    features, own, products = np.empty(len(indices), np.int32), np.empty(len(indices)), np.empty(Z.shape[1])
    for i in range(out.shape[0]):
        norm, n = 0.0, 0
        for j in range(indptr[i], indptr[i + 1]):
            norm += values[j] * values[j]
            f = np.uint32(indices[j])
            if f < place.shape[0] and place[f] >= 0:
                features[n], own[n] = place[f], values[j]
                n += 1
        if np.isinf(norm):
            out[i] = np.inf
            continue
        inner_products(features, own, 0, n, Z, products)
        for s in range(out.shape[1]):
            out[i, s] = max(norms[s] + norm - 2.0 * products[s], 0.0)
