"""Rows as the segments of a cache."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.storage.rows.cache_plan import LMDB_PAGE_HEADER
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, view
from tests.contracts.objectives import plain_segment


def make_segments(X: sparse.csr_matrix, y: np.ndarray, size: int, seed: int = 0) -> list[Segment]:
    """The rows at random in segments of `size` bytes, LMDB's header taken off: read-only, as in the cache.

    Features are numbered as a dataset numbers them.
    """
    Qii = np.add.reduceat(np.append(X.data.astype(float) ** 2, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    ids = np.arange(X.shape[0], dtype=np.int32)
    indices = X.indices.copy()
    features = Renumbering()
    features.observe(indices, X.shape[0])
    features.settle()
    features.apply(indices)
    source = plain_segment(ids, y, Qii, X.indptr.astype(np.int64), indices, X.data.astype(np.float32))
    builder = SegmentBuilder(size - LMDB_PAGE_HEADER)
    left = np.random.default_rng(seed).permutation(X.shape[0])
    segments = []
    while len(left):
        left = left[builder.add(source, left) :]
        segments.append(view(builder.take()))
    return segments
