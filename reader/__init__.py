"""Turns input into rows: parsers and ingest, and the process that streams blocks into the cache."""
