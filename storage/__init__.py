"""Bytes: blocks on disk, segments in the cache, shared state, models. This package knows rows, but no training."""

import os

# numba vectorises sums over adjacent columns of w, one a task, only if this is set before it compiles anything: these
# sums then take a third of the time.
os.environ.setdefault("NUMBA_SLP_VECTORIZE", "1")
