"""Model files, and what a model answers for a row."""
