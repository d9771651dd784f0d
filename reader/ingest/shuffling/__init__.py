"""Puts a dataset's rows in a random order, in bounded memory."""
