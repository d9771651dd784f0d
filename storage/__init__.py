"""Bytes: blocks on disk, segments in the cache, mapped state, models. Knows rows, not support vector machines."""

import os

# Lanes that lie side by side are added up as vectors only if numba is told so before it compiles anything: they take a
# third of the time then.
os.environ.setdefault("NUMBA_SLP_VECTORIZE", "1")
