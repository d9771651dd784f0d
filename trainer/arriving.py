"""Which arriving rows need a visit, found on several threads.

The gradients of all rows that arrive together are taken at one w, in parallel; rows that rest at a bound there are done
with, and the others are visited one after the other, with their gradients taken anew (Chiang, Lee, Lin, KDD 2016). What
comes out does not depend on the number of threads.
"""

from concurrent.futures import Executor
from functools import partial

import numpy as np

from storage.csr import Array, row_dots
from storage.segment import Segment
from trainer.kernels.resting import mark_resting

Bounds = tuple[float, float, float, float]


def find_resting(
    segments: list[Segment], bounds: Bounds, alpha: Array, w: Array, pool: Executor
) -> list[tuple[Array, Array]]:
    """For each segment: which of its rows (n,) bool rest at a bound at this w, and their scores (n,) float32."""
    return list(pool.map(partial(_find_resting, bounds, alpha, w), segments))


def _find_resting(bounds: Bounds, alpha: Array, w: Array, rows: Segment) -> tuple[Array, Array]:
    dots, resting, score = np.empty(len(rows)), np.empty(len(rows), bool), np.empty(len(rows), np.float32)
    row_dots(rows.indptr, rows.indices, rows.values, w, dots)
    mark_resting(rows.row_id, rows.y, dots, *bounds, alpha, resting, score)
    return resting, score
