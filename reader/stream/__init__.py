"""The reader process: blocks of a dataset into the cache, pass after pass, and the choice of rows that stay."""
