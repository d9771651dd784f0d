"""Bytes: blocks on disk, segments in the cache, shared state, models. This package handles rows, and does not train."""

import os

# numba vectorises sums over adjacent columns of w, one per task, only if this is set before the first compilation:
# these sums then take a third of the time.
os.environ.setdefault("NUMBA_SLP_VECTORIZE", "1")
