"""The reader process: it streams a dataset's blocks into the cache, pass after pass, and chooses rows to evict."""
