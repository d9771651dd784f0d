"""Rows in memory, and decoded rows on disk: sparse rows, segments, the cache, spill files."""
