"""Copying rows side by side."""

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# gather_rows(picked (k,), indptr, indices, values; out_indptr (k + 1,), out_indices, out_values): the rows picked.


@njit(cache=True, nogil=True)
def gather_rows(
    picked: Array, indptr: Array, indices: Array, values: Array, out_indptr: Array, out_indices: Array,
    out_values: Array,
) -> None:  # fmt: skip
    k = 0
    out_indptr[0] = 0
    for i in range(picked.shape[0]):
        for j in range(indptr[picked[i]], indptr[picked[i] + 1]):
            out_indices[k], out_values[k] = indices[j], values[j]
            k += 1
        out_indptr[i + 1] = k
