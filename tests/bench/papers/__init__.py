"""The papers' headlines, measured with our own runs: a table and a figure each, and whether they were reproduced."""
