"""Bytes: blocks on disk, segments in the cache, mapped state, models. Knows rows, not support vector machines."""
