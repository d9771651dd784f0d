"""Projecting rows on random directions."""

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# project(indptr, indices, values, omega (width, D), b (D,), z (n, D) float32): z_i = b + sum_f x_if omega_f.


@njit(cache=True, nogil=True, fastmath=True)
def project(indptr: Array, indices: Array, values: Array, omega: Array, b: Array, z: Array) -> None:
    dimension = b.shape[0]
    for i in range(z.shape[0]):
        for d in range(dimension):
            z[i, d] = b[d]
        for j in range(indptr[i], indptr[i + 1]):
            f, value = indices[j], values[j]
            for d in range(dimension):
                z[i, d] += value * omega[f, d]
