"""Compiled kernels for changes of w, which is flattened. With many lanes w is long, and each kernel reads it once.

`lanes` is the length of arrays (lanes,), and the last axis of w.
"""

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# add_step(change, step (lanes,), own): own += step * change, lane by lane.


@njit(cache=True, nogil=True)
def add_step(change: Array, step: Array, own: Array) -> None:
    lanes = step.shape[0]
    for i in range(0, change.shape[0], lanes):
        for lane in range(lanes):
            own[i + lane] += step[lane] * change[i + lane]


@njit(cache=True, nogil=True)
def count_changed(difference: Array) -> int:
    count = 0
    for i in range(difference.shape[0]):
        count += difference[i] != 0.0
    return count


# name_changed(difference, indices, values): writes the indices and values of the numbers that are not 0.


@njit(cache=True, nogil=True)
def name_changed(difference: Array, indices: Array, values: Array) -> None:
    k = 0
    for i in range(difference.shape[0]):
        if difference[i] != 0.0:
            indices[k], values[k] = i, difference[i]
            k += 1


# add_named(total, indices, values, step (lanes,)), add_all(total, values, step): total += step times the change.


@njit(cache=True, nogil=True)
def add_named(total: Array, indices: Array, values: Array, step: Array) -> None:
    lanes = step.shape[0]
    for k in range(indices.shape[0]):
        i = indices[k]
        total[i] += step[i % lanes] * values[k]


@njit(cache=True, nogil=True)
def add_all(total: Array, values: Array, step: Array) -> None:
    lanes = step.shape[0]
    for i in range(0, total.shape[0], lanes):
        for lane in range(lanes):
            total[i + lane] += step[lane] * values[i + lane]
