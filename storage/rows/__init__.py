"""Rows in memory and beside it: sparse matrices, segments, the cache, rows kept decoded on disk."""
