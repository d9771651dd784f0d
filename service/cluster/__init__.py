"""Training on several machines: each has a part of the rows, rounds bring them together."""
